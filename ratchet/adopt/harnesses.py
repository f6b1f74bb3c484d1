"""Find benchmarks of other harnesses in a repository, and commands that run them; try these in a fresh checkout.

A command that ran becomes ``command`` and ``format`` of the settings, so the repository's own benchmarks are what a check times.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ratchet.adopt.files import has_settings, in_toml
from ratchet.core.bench.build import build_tree
from ratchet.core.config import text_of
from ratchet.core.device.vendor import vendor_here
from ratchet.core.errors import RatchetError, UsageError
from ratchet.core.git import Repository, worktrees
from ratchet.core.request import Request
from ratchet.core.run import cases_of_checkout
from ratchet.core.untrusted import clean

_COMMAND_S, _BUILD_S = 180.0, 600.0
"""Longest that a command and a build are tried: a check runs the command twelve times or more."""


@dataclass(frozen=True)
class FoundHarness:
    """Benchmarks of another harness, and commands that may run them, the likeliest first."""

    tool: str
    commands: tuple[tuple[str, ...], ...]
    format: str
    build: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    """Programs without which it is not tried."""
    needs_gpu: bool = False

    def settings(self, number: int = 0) -> dict[str, str]:
        """Return the lines of the settings, as values in TOML."""
        found = {"build": in_toml(self.build)} if self.build else {}
        return found | {"command": in_toml(self.commands[number]), "format": in_toml(self.format)}

    def command_line(self) -> str:
        """Return its first command as somebody would type it for ratchet."""
        return " ".join(word if re.fullmatch(r"[\w./{}=:@%+,-]+", word) else shlex.quote(word) for word in self.commands[0])

    def option(self) -> str:
        """Return its first command and its format as options of `ratchet check`."""
        return f"--command {shlex.quote(self.command_line())} --format {self.format}"


@dataclass(frozen=True)
class TriedHarness:
    """A harness, and how it fared when its command was tried."""

    harness: FoundHarness
    number: int = 0
    """Which of its commands."""
    cases: int = 0
    problem: str = ""
    """Why it gave no cases here."""


_BENCHMARK_FIXTURE = re.compile(r"^\s*(?:async )?def test_\w+\s*\([^)]*\bbenchmark\b[^)]*\)", re.MULTILINE)
_OUR_FIXTURE = re.compile(r"^\s*(?:async )?def test_\w+\s*\([^)]*\bratchet_benchmark\b[^)]*\)", re.MULTILINE)
_CODSPEED_MARK = re.compile(r"^\s*@pytest\.mark\.(?:benchmark|codspeed_benchmark)\b", re.MULTILINE)


def harnesses(files: Mapping[str, str]) -> list[FoundHarness]:
    """Return the harnesses of a repository; ``files``: path → text."""
    found = [*_of_fixture(files), *_of_pytest(files), *_of_asv(files), *_of_cmake(files), *_of_perf_report(files)]
    return sorted(found, key=lambda each: each.needs_gpu)


def _of_fixture(files: Mapping[str, str]) -> Iterator[FoundHarness]:
    tests = [file for file, text in files.items() if file.endswith(".py") and _OUR_FIXTURE.search(text)]
    if tests:
        words = ("python", "-m", "pytest", *_places(tests, files), "--ratchet-json={out}")
        yield FoundHarness("ratchet_benchmark", (words, (*words, "-o", "addopts=")), "json")


def _of_pytest(files: Mapping[str, str]) -> Iterator[FoundHarness]:
    tests = [
        file
        for file, text in files.items()
        if file.endswith(".py") and (_BENCHMARK_FIXTURE.search(text) or (_CODSPEED_MARK.search(text) and "def test" in text))
    ]
    if not tests:
        return
    places = _places(tests, files)
    declared = " ".join(text for file, text in files.items() if not file.endswith(".py"))
    has_codspeed = re.search(r"pytest[-_]codspeed", declared) and not re.search(r"pytest[-_]benchmark", declared)
    if has_codspeed:
        words = (
            "env",
            "CODSPEED_PROFILE_FOLDER={dir}",
            "python",
            "-m",
            "pytest",
            *places,
            "--codspeed",
            "--codspeed-mode",
            "walltime",
        )
        yield FoundHarness("pytest-codspeed", (words, (*words, "-o", "addopts=")), "codspeed")
        return
    if not any(re.search(r"\bbenchmark(\.pedantic)?\(|@benchmark\b", files[file]) for file in tests):
        return
    words = ("python", "-m", "pytest", *places, "--benchmark-only", "--benchmark-json={out}")
    yield FoundHarness("pytest-benchmark", (words, (*words, "-o", "addopts=")), "pytest-benchmark")


def _places(tests: Sequence[str], files: Mapping[str, str]) -> tuple[str, ...]:
    """Return the folder of these tests if all tests in it are of them, else the files, up to four; else the folder after all."""
    folder = os.path.commonpath([str(PurePosixPath(file).parent) for file in tests]) or "."
    inside = [
        file
        for file in files
        if re.search(r"(^|/)test_[^/]*\.py$|_test\.py$", file) and (folder == "." or file.startswith(f"{folder}/"))
    ]
    return (folder,) if set(inside) <= set(tests) or len(tests) > 4 else tuple(sorted(tests))


def _of_asv(files: Mapping[str, str]) -> Iterator[FoundHarness]:
    for file in files:
        if PurePosixPath(file).name in ("asv.conf.json", "asv.conf.jsonc"):
            words = ("python", "-m", "ratchet.harness.run_asv", "{dir}")
            yield FoundHarness("asv", ((*words, *(() if file == "asv.conf.json" else ("--config", file))),), "asv")


_PROGRAMS = {
    "NVBench": (
        re.compile(r"#\s*include\s*[<\"]nvbench/|\bNVBENCH_BENCH"),
        ("--jsonbin", "{out}"),
        "nvbench",
    ),
    "Google Benchmark": (
        re.compile(r"#\s*include\s*[<\"](?:benchmark/)?benchmark\.h[>\"]"),
        ("--benchmark_out={out}", "--benchmark_out_format=json", "--benchmark_repetitions=5"),
        "google-benchmark",
    ),
}
_TARGET = re.compile(
    r"\b(?:add_executable|cuda_add_executable|cc_binary|ConfigureBench|ConfigureNVBench)\s*\(\s*([\w.+-]+)\s+([^)]*)\)"
)
"""A program of CMake with its sources; the last two are functions that RAPIDS and others define."""
_OUTPUT = re.compile(r"RUNTIME_OUTPUT_DIRECTORY\s+\"?(?:\$<BUILD_INTERFACE:)?\$\{\w*BINARY_DIR\}/([\w./-]+)")
"""Where a file of CMake has its programs put, below the folder of the build."""


def _of_cmake(files: Mapping[str, str]) -> Iterator[FoundHarness]:
    for tool, (mark, options, format_) in _PROGRAMS.items():
        sources = [file for file, text in files.items() if file.endswith((".cu", ".cpp", ".cc", ".cxx")) and mark.search(text)]
        program = next(_programs(sources, files), None)
        if not program:
            continue
        source, folder, target = program
        place = str(PurePosixPath("build", folder, target))
        configure = (
            f"cmake -S {shlex.quote(source)} -B build -DCMAKE_BUILD_TYPE=Release && cmake --build build -j --target {target}"
        )
        on_gpu = any(source.endswith(".cu") for source in sources) or tool == "NVBench"
        yield FoundHarness(
            tool,
            ((f"./{place}", *options),),
            format_,
            ("bash", "-c", configure),
            needs=("cmake", "nvcc") if on_gpu else ("cmake",),
            needs_gpu=on_gpu,
        )


def _programs(sources: Sequence[str], files: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield folder of the project, folder in it, and name of programs that CMake makes of one of these sources."""
    lists = {PurePosixPath(file).parent: text for file, text in files.items() if PurePosixPath(file).name == "CMakeLists.txt"}
    for folder, text in lists.items():
        project = min((above for above in (folder, *folder.parents) if above in lists), key=lambda each: len(each.parts))
        for found in _TARGET.finditer(re.sub(r"#.*", "", text)):
            listed = {os.path.normpath(str(folder / word.strip('"'))) for word in found[2].split()}
            if listed & set(sources):
                elsewhere = _OUTPUT.search(text)
                yield str(project), elsewhere[1] if elsewhere else str(folder.relative_to(project)), found[1]


def _of_perf_report(files: Mapping[str, str]) -> Iterator[FoundHarness]:
    scripts = [
        file
        for file, text in files.items()
        if file.endswith(".py") and re.search(r"^@(?:\w+\.)*perf_report\b", text, re.MULTILINE)
    ]
    if scripts:
        script = min(scripts, key=lambda file: (len(PurePosixPath(file).parts), file))
        words = ("python", "-m", "ratchet.harness.run_perf_report", script, "{dir}")
        yield FoundHarness("triton.testing.perf_report", (words,), "triton", needs_gpu=True)


# Trying.


def try_harness(
    harness: FoundHarness, repository: Repository, project: Path, python_path: Sequence[str], environ: Mapping[str, str]
) -> TriedHarness:
    """Build and run a harness once in a copy of the checkout, as a check will; say how many cases it reports, or why none."""
    if missing := next((program for program in harness.needs if not shutil.which(program, path=environ.get("PATH"))), None):
        return TriedHarness(harness, problem=f"there is no {missing} here")
    if harness.needs_gpu and not _has_gpu(environ):
        return TriedHarness(harness, problem="there is no GPU here")
    if not repository.hash_of("HEAD"):
        return TriedHarness(harness, problem="there is no commit yet")
    problem = ""
    try:
        with worktrees(repository, repository.working_snapshot(), None) as trees:
            folder = trees.head.resolve() / project
            settings = folder / "pyproject.toml"
            if not has_settings(text_of(settings)):
                with settings.open("a", encoding="utf-8") as stream:  # so that the command runs in this folder
                    stream.write("\n[tool.ratchet]\n")
            if harness.build:
                build_tree(trees.head, harness.build, (), "", _BUILD_S, environ, cache=False, folder=str(project))
            for number, command in enumerate(harness.commands):
                options = {"command": command, "format": harness.format, "command_timeout": _COMMAND_S}
                request = Request(folder, (), options=options | {"python_path": tuple(python_path)})
                try:
                    cases = cases_of_checkout(request, environ)
                except RatchetError as error:
                    problem = problem or clean(str(error), 300)
                    continue
                broken = next((failure.message for case in cases for failure in case.failures), "")
                ran = sum(not case.skipped for case in cases)
                if ran and not broken:
                    return TriedHarness(harness, number, ran)
                problem = problem or clean(broken, 300) or "none of its benchmarks ran here"
    except RatchetError as error:
        problem = clean(error.message.rstrip("."), 200)
    return TriedHarness(harness, problem=problem)


def _has_gpu(environ: Mapping[str, str]) -> bool:
    try:
        return bool(vendor_here().visible_gpus(environ))
    except UsageError:  # CUDA_VISIBLE_DEVICES names none that is here
        return False
