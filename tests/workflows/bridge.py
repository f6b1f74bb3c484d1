"""GitHub's own workflow parser and expression evaluator, in one Node process."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NODE = Path(__file__).parent / "node"
BUNDLER = NODE / "node_modules" / ".bin" / "esbuild"


def missing() -> str:
    """Why there is no bridge on this machine; empty where there is one."""
    if not shutil.which("node"):
        return "node is not on the PATH"
    return "" if BUNDLER.exists() else "no packages: npm ci --prefix tests/workflows/node"


class Bridge:
    """Use as a context manager. ``folder`` takes the bundle."""

    def __init__(self, folder: Path) -> None:
        bundle = folder / "bridge.cjs"
        options = ["--bundle", "--platform=node", "--format=cjs", "--log-level=warning", f"--outfile={bundle}"]
        subprocess.run([BUNDLER, NODE / "bridge.mjs", *options], check=True)
        self._lock = threading.Lock()
        self._child = subprocess.Popen(["node", bundle], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Bridge:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.communicate(timeout=300)

    def evaluate(self, expression: str, contexts: Mapping[str, Any], functions: Mapping[str, bool]) -> dict[str, Any]:
        """``text``, ``value`` and ``true`` of an expression."""
        return self._ask({"op": "evaluate", "expression": expression, "contexts": contexts, "functions": functions})

    def errors(self, kind: str, path: str, files: Mapping[str, str]) -> list[str]:
        """What GitHub would say of a workflow or an action; ``files`` holds it and the workflows that it calls."""
        # Newer than this parser (0.3.61 of 2026-08): `cache-mode`, which the published schema has.
        known = {name: re.sub(r"^cache-mode: none\b.*$", "", text, flags=re.MULTILINE) for name, text in files.items()}
        return list(self._ask({"op": "parse", "kind": kind, "path": path, "files": known})["errors"])

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._child.stdin
        assert self._child.stdout
        with self._lock:
            self._child.stdin.write(json.dumps(request) + "\n")
            self._child.stdin.flush()
            answer: dict[str, Any] = json.loads(self._child.stdout.readline())
        assert "failed" not in answer, f"{request.get('expression', request.get('path'))}: {answer['failed']}"
        return answer
