"""Call a file of the user twice, for a tool that looks at the process. An exception of the file ends it with status 1."""

from __future__ import annotations

import json
import sys

import torch

from ratchet.lab.child.runner import FileProcess, built
from ratchet.lab.contents import CallContents
from ratchet.lab.records.evaluation import InputSpec, SourceFile


def main() -> None:
    task = json.loads(sys.argv[1])
    device, seed = task["device"], task["seed"]
    runner = FileProcess(device, -1)
    if task["maker"]:
        maker = SourceFile.model_validate(task["maker"])
        runner.load(maker.path, maker.text, task["maker_function"], seed)
        arguments = runner.made(seed)
    else:
        contents = CallContents([InputSpec.model_validate_json(text) for text in task["inputs"]], None, device, seed)
        arguments = built(contents.tree, contents.made(seed))
    source = SourceFile.model_validate(task["source"])
    runner.load(source.path, source.text, task["function"], seed)
    for _ in range(2):
        runner.function(*arguments)
    if device == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
