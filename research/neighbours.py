"""Check rewrites that change nothing measurable, and planted slowdowns: ``python research/neighbours.py FOLDER --files FILE …``.

FOLDER is a git repository of a Triton package with a bench folder, nothing uncommitted in it; each FILE holds kernels that its
benchmarks call. Every rewrite is made in one of the files, in turn, and checked against HEAD as a user would check it. With
``--plant FILE:SHARE`` each launch in that file is followed by a launch of that share of its programs, which do their work twice.
With ``--releases OLD..NEW`` tags are checked against each other. The working tree is restored.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from foreign import check, git


def is_kernel(node: ast.AST) -> bool:
    """Return whether a function is compiled by Triton."""
    return isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(decorator) for decorator in node.decorator_list)


def functions(source: str) -> list[ast.FunctionDef]:
    return [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]


def kernels(source: str) -> list[ast.FunctionDef]:
    return [node for node in functions(source) if is_kernel(node)]


def host_functions(source: str) -> list[ast.FunctionDef]:
    return [node for node in functions(source) if not node.decorator_list]


def renamed(source: str, names: dict[str, str]) -> str:
    """Return the source with other names; those in quotes and those of attributes stay."""
    pattern = re.compile(r"(?<![\w.\"'])(" + "|".join(map(re.escape, names)) + r")(?![\w\"'])") if names else None
    return pattern.sub(lambda match: names[match[1]], source) if pattern else source


def inserted(source: str, lines: dict[int, str]) -> str:
    """Return the source with texts before the lines of these numbers, which count from 1."""
    old = source.splitlines(keepends=True)
    return "".join(lines.get(number, "") + line for number, line in enumerate(old, 1))


def first_lines(nodes: list[ast.FunctionDef]) -> Iterator[int]:
    """Yield the line of the first statement of each function that is no docstring, or that of its first decorator."""
    for node in nodes:
        has_docstring = ast.get_docstring(node) is not None
        for one in node.body[has_docstring : has_docstring + 1]:
            yield min(part.lineno for part in (one, *getattr(one, "decorator_list", ())))


# The rewrites: a file's source in, its new source out.


def comment(source: str) -> str:
    return source + "\n# A comment.\n"


def lines_moved(source: str) -> str:
    return "# A longer header\n# than there was before.\n\n" + source


def unused_import(source: str) -> str:
    return source.replace("import torch\n", "import contextlib  # noqa: F401\n\nimport torch\n", 1)


def formatted(source: str) -> str:
    return ast.unparse(ast.parse(source)) + "\n"


def docstrings(source: str) -> str:
    nodes = [node for node in functions(source) if ast.get_docstring(node) is None]
    texts = [f'    """Compute {node.name}."""\n' for node in nodes]
    return inserted(comment(source), dict(zip(first_lines(nodes), texts, strict=True)))


def kernel_renamed(source: str) -> str:
    return renamed(source, {node.name: f"{node.name}_v2" for node in kernels(source)})


def locals_renamed(source: str) -> str:
    """Rename what kernels assign to, but their arguments."""
    names: dict[str, str] = {}
    for node in kernels(source):
        arguments = {argument.arg for argument in node.args.args}
        stored = {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
        names |= {name: f"{name}_value" for name in stored - arguments if len(name) > 2}
    other_names = {argument.arg for node in functions(source) for argument in node.args.args}
    others = {one.id for node in host_functions(source) for one in ast.walk(node) if isinstance(one, ast.Name)}
    keywords = {word.arg for word in ast.walk(ast.parse(source)) if isinstance(word, ast.keyword)}
    return renamed(source, {old: new for old, new in names.items() if old not in other_names | others | keywords})


def functions_in_another_order(source: str) -> str:
    """Exchange the first two functions that stand side by side and are kernels."""
    lines = source.splitlines(keepends=True)
    spans = [(node.decorator_list[0].lineno - 1, node.end_lineno or 0) for node in kernels(source)]
    for (start, end), (next_start, next_end) in itertools.pairwise(spans):
        if not "".join(lines[end:next_start]).strip():
            order = [*lines[:start], *lines[next_start:next_end], *lines[end:next_start], *lines[start:end], *lines[next_end:]]
            return "".join(order)
    return comment(source)


def unused_value(source: str) -> str:
    """Compute something in each kernel that nothing needs; the compiler leaves it out."""
    return inserted(source, dict.fromkeys(first_lines(kernels(source)), "    unneeded = tl.program_id(0) * 2\n"))


def operands_exchanged(source: str) -> str:
    """Write products of two names the other way round, in kernels."""

    class Exchange(ast.NodeTransformer):
        def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
            self.generic_visit(node)
            if isinstance(node.op, ast.Mult) and isinstance(node.left, ast.Name) and isinstance(node.right, ast.Name):
                node.left, node.right = node.right, node.left
            return node

    tree = ast.parse(source)
    tree.body = [Exchange().visit(node) if is_kernel(node) else node for node in tree.body]
    return ast.unparse(tree) + "\n"


def assertion(source: str) -> str:
    """Check something cheap at the start of every host function."""
    line = "    assert torch.is_grad_enabled() in (True, False)\n"
    return inserted(source, dict.fromkeys(first_lines(host_functions(source)), line))


def wrapped(source: str) -> str:
    """Move the body of each host function into a helper that it calls."""
    lines = source.splitlines(keepends=True)
    for node in host_functions(source):
        lines[node.lineno - 1] = lines[node.lineno - 1].replace(f"def {node.name}(", f"def _{node.name}_body(", 1)
        last = (node.end_lineno or node.lineno) - 1
        lines[last] += f"\n\ndef {node.name}(*arguments, **options):\n    return _{node.name}_body(*arguments, **options)\n"
    return "".join(lines)


def tidied(source: str) -> str:
    """Give what each host function returns a name first."""
    lines = source.splitlines(keepends=True)
    for node in host_functions(source):
        last = node.body[-1]
        if isinstance(last, ast.Return) and last.value and last.end_lineno:
            text = f"    outcome = {ast.unparse(last.value)}\n    return outcome\n"
            lines[last.lineno - 1 : last.end_lineno] = [text] + [""] * (last.end_lineno - last.lineno)
    return "".join(lines)


def annotated(source: str) -> str:
    """Postpone annotations, which the first statement of a module does."""
    return "from __future__ import annotations\n\n" + source


def moved(source: str) -> str:
    """Import everything from `_moved_code.py` beside the file, where `rewrite` keeps what the file was."""
    names = [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    listed = "".join(f"    {name},\n" for name in names)
    return f"from ._moved_code import (\n{listed})\n"


REWRITES: tuple[Callable[[str], str], ...] = (
    kernel_renamed,
    lines_moved,
    operands_exchanged,
    wrapped,
    locals_renamed,
    functions_in_another_order,
    moved,
    docstrings,
    unused_value,
    formatted,
    assertion,
    tidied,
    comment,
    annotated,
    unused_import,
)


def rewrite(path: Path, change: Callable[[str], str]) -> None:
    source = path.read_text()
    path.write_text(change(source))
    if change is moved:
        path.with_name("_moved_code.py").write_text(source)


def plant(path: Path, share: float) -> None:
    """Let each launch of a kernel be followed by a launch of a share of its programs."""
    source = path.read_text()
    lines = source.splitlines(keepends=True)
    launches = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Subscript)
    ]
    for node in sorted(launches, key=lambda node: node.lineno, reverse=True):
        call = node.value
        assert isinstance(call, ast.Call) and isinstance(call.func, ast.Subscript)  # noqa: PT018  as it was chosen
        kernel, grid = ast.unparse(call.func.value), ast.unparse(call.func.slice)
        words = list(map(ast.unparse, [*call.args, *call.keywords]))
        part = f"(lambda grid: (max(1, round({share} * grid[0])), *grid[1:]))({grid})"
        indent = " " * node.col_offset
        lines.insert(node.end_lineno or node.lineno, f"{indent}{kernel}[{part}]({', '.join(words)})\n")
    path.write_text("".join(lines))


def row(folder: Path, name: str, base: str) -> int:
    """Check once and print a row. Return how many cases were red."""
    try:
        done = check(folder, "--base", base, "--no-profile", log=folder.parent / f"{folder.name}.log")
    except FileNotFoundError:
        print(f"| {name} | – | – | no report | |", flush=True)
        return 0
    outcomes = Counter(done.outcomes.values())
    counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
    timed = {case: change for case, change in done.changes.items() if done.outcomes[case] != "IDENTICAL"}
    changes = [f"{case} {done.outcomes[case]} {change:+.2%}" for case, change in timed.items()]
    print(f"| {name} | {done.code} | {done.seconds:.0f} s | {counts} | {', '.join(changes)} |", flush=True)
    return outcomes["REGRESSED"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", nargs="+", type=Path, default=[], help="files to rewrite in turn, relative to FOLDER")
    parser.add_argument("--only", nargs="+", choices=[one.__name__ for one in REWRITES], help="rewrites to make")
    parser.add_argument("--plant", nargs="+", default=[], metavar="FILE:SHARE", help="slowdowns to plant, one check each")
    parser.add_argument("--releases", nargs="+", default=[], metavar="OLD..NEW", help="tags to compare")
    options = parser.parse_args()
    folder, red, checks = options.folder.resolve(), 0, 0
    head = git(folder, "rev-parse", "HEAD").strip()
    print("| what | exit code | time | outcomes | measured |\n|:--|--:|--:|:--|:--|", flush=True)
    for number, change in enumerate(REWRITES if options.files else ()):
        file = options.files[number % len(options.files)]
        if options.only and change.__name__ not in options.only:
            continue
        try:
            rewrite(folder / file, change)
            red += row(folder, f"{change.__name__} in {file.name}", "HEAD") > 0
            checks += 1
        finally:
            git(folder, "checkout", "-q", "--force", "HEAD")
            git(folder, "clean", "-fdq", "src")
    for pair in options.releases:
        old, new = pair.split("..")
        try:
            git(folder, "checkout", "-q", "--force", new)
            red += row(folder, pair, old) > 0
            checks += 1
        finally:
            git(folder, "checkout", "-q", "--force", head)
    print(f"\n{red} of {checks} checks red where nothing was planted.\n", flush=True)
    for word in options.plant:
        file, share = word.rsplit(":", 1)
        try:
            plant(folder / file, float(share))
            row(folder, f"{share} of each launch twice in {Path(file).name}", "HEAD")
        finally:
            git(folder, "checkout", "-q", "--force", "HEAD")


if __name__ == "__main__":
    main()
