// GitHub's own parser and evaluator, spoken to over standard input and output: one JSON request a line, one JSON answer a line.
//   {"op": "evaluate", "expression": "…", "contexts": {…}, "functions": {"success": true, …}} → {"text": "…", "value": …, "true": …}
//   {"op": "parse", "kind": "workflow" | "action", "path": "…", "files": {"path": "text"}} → {"errors": ["…"]}
import { createInterface } from "node:readline";
import { Evaluator, Lexer, Parser, data } from "@actions/expressions";
import { parseWorkflow, convertWorkflowTemplate, NoOperationTraceWriter } from "@actions/workflow-parser";
import { parseAction } from "@actions/workflow-parser/actions/action-parser";

function evaluate({ expression, contexts, functions }) {
  const answers = new Map(
    Object.entries(functions).map(([name, value]) => [
      name.toLowerCase(),
      { name, minArgs: 0, maxArgs: 255, call: () => new data.BooleanData(value) },
    ]),
  );
  const known = JSON.parse(JSON.stringify(contexts), data.reviver);
  const tree = new Parser(new Lexer(expression).lex().tokens, Object.keys(contexts), [...answers.values()]).parse();
  const result = new Evaluator(tree, known, answers).evaluate();
  const value = JSON.parse(JSON.stringify(result, data.replacer) ?? "null");
  const empty = value === null || value === false || value === "" || value === 0 || Number.isNaN(result.value);
  return { text: result.coerceString(), value, true: !empty };
}

async function parse({ kind, path, files }) {
  const trace = new NoOperationTraceWriter();
  const file = (name) => ({ name, content: files[name] });
  const result = kind === "action" ? parseAction(file(path), trace) : parseWorkflow(file(path), trace);
  if (kind === "workflow" && result.value && !result.context.errors.getErrors().length) {
    const provider = { getFileContent: async (reference) => file(reference.path) };
    await convertWorkflowTemplate(result.context, result.value, provider, { fetchReusableWorkflowDepth: 1 });
  }
  return { errors: result.context.errors.getErrors().map((error) => error.message) };
}

async function serve() {
  for await (const line of createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    let answer;
    try {
      answer = request.op === "parse" ? await parse(request) : evaluate(request);
    } catch (error) {
      answer = { failed: String(error.message ?? error) };
    }
    process.stdout.write(JSON.stringify(answer) + "\n");
  }
}

serve();
