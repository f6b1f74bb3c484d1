"""Scripts for `ratchet advise`: each in planted/ has one antipattern, named in its first line; those in clean/ have none.

Most were written before any rule, or set aside until the rules were frozen (research/README.md).
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
PLANTED = sorted((HERE / "planted").glob("*.py"))
CLEAN = sorted((HERE / "clean").glob("*.py"))


def planted_in(script: Path) -> str:
    """Return the name of the finding that belongs first."""
    return script.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# plants: ")


def runs_on_cpu(script: Path) -> bool:
    """Return whether a script needs no GPU."""
    return "# runs on: cpu\n" in script.read_text(encoding="utf-8")
