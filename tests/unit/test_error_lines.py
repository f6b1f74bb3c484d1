"""The line that matters of an error. Golden inputs are what the tools printed: see tests/data/README.md."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.core.errors import LONGEST, described, error_line, first_error

TEXTS = Path(__file__).parents[1] / "data" / "error_texts"
TREE = "/tree"


def test_sentences(golden: Callable[[str, str], None]) -> None:
    """What Triton, torch.compile and C++ extensions raised, and what compilers and build tools printed, in one line each."""
    sources = {f"{TREE}/kernels.py": (TEXTS / "kernels.py.txt").read_text().splitlines(keepends=True)}
    raised = json.loads((TEXTS / "raised.json").read_text())
    lines = [f"{one['name']}: {error_line(one['type'], one['text'], one['traceback'], TREE, sources)}" for one in raised]
    assert all(len(line.partition(": ")[2]) <= LONGEST and line.isprintable() for line in lines)
    logs = json.loads((TEXTS / "logs.json").read_text())
    golden("error_lines.txt", "\n".join([*lines, *(f"{name}: {first_error(log)}" for name, log in logs.items()), ""]))


CAUGHT = """Traceback (most recent call last):
  File "/tree/bench/softmax.py", line 12, in softmax
    return layout(x)
  File "/tree/kernels/layouts.py", line 7, in layout
    raise ValueError("no such layout")
  File "/venv/lib/python3.11/site-packages/torch/nn.py", line 99, in forward
"""


@pytest.mark.parametrize(
    ("kind", "text", "sentence"),
    [
        ("ValueError", "no such layout", "ValueError: no such layout (kernels/layouts.py:7)"),
        ("KeyError", "", "KeyError (kernels/layouts.py:7)"),
        (
            "RuntimeError",
            "Caught ValueError in worker 0.\nOriginal Traceback (most recent call last):\n  x\nValueError: too few rows",
            "RuntimeError: ValueError: too few rows (kernels/layouts.py:7)",
        ),
        ("OSError", "a\nb\x1b[31m\x00c\x1b[0m", "OSError: a bc (kernels/layouts.py:7)"),
        ("ImportError", "cannot import f (/tree/x/y.py)", "ImportError: cannot import f (x/y.py) (kernels/layouts.py:7)"),
        (
            "AcceleratorError",
            "CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be asynchronously reported at some "
            "other API call, so the stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1",
            "AcceleratorError: CUDA error: an illegal memory access was encountered (kernels/layouts.py:7)",
        ),
        ("RuntimeError", "x" * 400, f"RuntimeError: {'x' * (LONGEST - 14 - 23 - 1)}… (kernels/layouts.py:7)"),
    ],
)
def test_a_python_error(kind: str, text: str, sentence: str) -> None:
    """An error of Python is its message and the innermost line of the author's tree; the place stays where the message is cut."""
    assert error_line(kind, text, CAUGHT, TREE, {}) == sentence


def test_no_frame_of_the_tree() -> None:
    """Without a frame of the tree there is no place; files of packages installed inside the tree are not the author's."""
    for file in ("/elsewhere/x.py", "/tree/.venv/lib/python3.11/site-packages/x.py", "/treehouse/x.py"):
        assert error_line("ValueError", "no", f'  File "{file}", line 3, in f\n', TREE, {}) == "ValueError: no"


TRITON = "triton.compiler.errors.CompilationError: at 2:{column}:\ndef kernel(x):\n    {source}\n{caret}^\nNameError('y')\n"


@pytest.mark.parametrize(
    ("files", "place"),
    [
        ({"/tree/a.py": "import triton\n\n  def kernel(x):\n      {source}\n"}, "a.py:4:11"),
        ({}, "line 2, column 9 of kernel"),
        ({"/tree/a.py": "def kernel(x):\n  other\n"}, "line 2, column 9 of kernel"),
        (dict.fromkeys(("/tree/a.py", "/tree/b.py"), "def kernel(x):\n    {source}\n"), "line 2, column 9 of kernel"),
    ],
)
@pytest.mark.parametrize("source", ["z = y", "z = y" + " + 1" * 60])
def test_where_a_kernel_is(files: dict[str, str], place: str, source: str) -> None:
    """Triton counts from the kernel's first line; its file and line are named if exactly one file has these lines."""
    text = TRITON.format(column=8, source=source, caret=" " * 8)
    sources = {file: content.format(source=source).splitlines(keepends=True) for file, content in files.items()}
    sentence = error_line("CompilationError", text, text, TREE, sources)
    shown = source if len(source) <= 80 else f"{source[:80]}…"
    assert sentence == f"CompilationError at {place}, “{shown}”: NameError('y')"


def test_a_long_line_is_cut_around_the_caret() -> None:
    """What is quoted of a long source line is the part at the caret."""
    source = "z = (" + "a + " * 60 + "y)"
    text = TRITON.format(column=4 + source.index("y"), source=source, caret=" " * (4 + source.index("y")))
    assert "a + y)…”" in error_line("CompilationError", text, text, TREE, {})


class Odd(Exception):
    def __str__(self) -> str:
        raise TypeError


def test_a_raised_error(tmp_path: Path) -> None:
    """A live exception gives its sentence and the last lines of its traceback; one whose str() fails does too."""
    file = tmp_path / "layouts.py"
    file.write_text("def layout(error):\n    raise error\n")
    scope: dict[str, Callable[[BaseException], None]] = {}
    exec(compile(file.read_text(), str(file), "exec"), scope)
    for error, sentence in (
        (ValueError("no\nlayout"), "ValueError: no layout (layouts.py:2)"),
        (Odd(), "Odd: <exception str() failed> (layouts.py:2)"),
        (SystemExit("bye"), "SystemExit: bye (layouts.py:2)"),
    ):
        with pytest.raises(type(error)) as caught:
            scope["layout"](error)
        line, last_lines = described(caught.value, str(tmp_path))
        assert line == sentence
        assert last_lines[0].startswith("Traceback")
        assert "in test_a_raised_error" not in "".join(last_lines), "only the author's own frames are shown"
        assert '  File "layouts.py", line 2, in layout' in last_lines
        assert not [text for text in last_lines if set(text) <= set(" ^~")]


def test_what_this_package_refuses_has_no_lines_of_its_own(tmp_path: Path) -> None:
    """A wrong argument is told with the author's line, and without a traceback through this package."""
    file = tmp_path / "declares.py"
    file.write_text("from ratchet import Workload\n\ndef made():\n    return Workload(run=3)\n")
    scope: dict[str, Callable[[], object]] = {}
    exec(compile(file.read_text(), str(file), "exec"), scope)
    with pytest.raises(TypeError) as caught:
        scope["made"]()
    sentence = "TypeError: Workload(run=3): run is a function (declares.py:4)"
    assert described(caught.value, str(tmp_path)) == (sentence, ())


def test_no_error_in_a_log() -> None:
    """A log without a compiler's error has none; a line that only reports another program's error is better than nothing."""
    assert first_error("everything is fine\nmake: *** [all] Error 2\nError::operator() was inlined") == ""
    assert first_error("x\ncollect2: error: ld returned 1 exit status\n") == "collect2: error: ld returned 1 exit status"
