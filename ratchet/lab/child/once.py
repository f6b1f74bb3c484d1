"""Call a file of the user twice, for a tool that looks at the process, and write to a file why that failed, or nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from ratchet.lab.child.runner import FileProcess, built
from ratchet.lab.contents import CallContents
from ratchet.lab.records.evaluation import InputSpec, SourceFile


def main() -> None:
    task = json.loads(sys.argv[1])
    device, seed = task["device"], task["seed"]
    status, trouble = Path(task["status"]), ""
    try:
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
    except Exception as error:  # noqa: BLE001  the code of a user may raise anything
        trouble = f"{type(error).__name__}: {error}"[:500]
    status.write_text(trouble, encoding="utf-8")


if __name__ == "__main__":
    main()
