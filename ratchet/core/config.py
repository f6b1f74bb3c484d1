"""``[tool.ratchet]`` in pyproject.toml, then ``RATCHET_*`` in the environment, then options → Settings.

Reads pyproject.toml and nothing else: the environment and the options are arguments. docs/settings.md lists the settings.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import secrets
import shlex
import tomllib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, ValidationError

from ratchet.core import units
from ratchet.core.errors import UsageError
from ratchet.core.records.run import Gate, GateName, Mute, Policy
from ratchet.core.units import parse_size
from ratchet.core.workload import Device

BLOCK_MS: Mapping[Device, float] = {"cuda": 3.0, "cpu": 6.0}
"""Device time that one turn aims at, unless `Settings.block_ms` is set (docs/decisions/0019-at-once.md)."""
OF_EACH_TREE = ("build", "build_outputs", "python_path")
"""Settings that are part of a commit's code: they say how it is made and imported. So each side has its own."""
OF_BOTH_SIDES = ("bench", "command", "device", "cpu_threads", "clock", "cache", "placements")
"""Settings that say what is measured, so both sides have the head's. All others say how long and how exactly, or what is made of
the times."""
_DURATION = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|min|h)?\s*$")
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, None: 1.0}


def parse_fraction(value: object) -> float:
    """Read ``"3%"`` or ``0.03`` as 0.03. Raises ValueError for no number, and for 3: it could mean 3 % or a factor of 3."""
    if isinstance(value, str):
        text = value.strip()
        try:
            number = float(text.removesuffix("%"))
        except ValueError:
            raise ValueError(f"{value!r} is not a threshold: write 3% or 0.03") from None
        if text.endswith("%"):
            return number / 100
        value = number
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is not a threshold: write 3% or 0.03")
    if value >= 1:
        raise ValueError(f"{value} is 100 % or more: write {value:g}% for percent")
    return float(value)


def parse_duration(value: object) -> float:
    """Read ``90``, ``"90s"`` or ``"20m"`` as seconds. Raises ValueError for any other text."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    match = _DURATION.match(str(value))
    if not match:
        raise ValueError(f"{value!r} is not a duration: write 90s or 20m")
    return float(match[1]) * _SECONDS[match[2]]


def _parse_command(value: object) -> object:
    return tuple(shlex.split(value)) if isinstance(value, str) else value


def _parse_build(value: object) -> object:
    """Read a command, and refuse one that installs a tree into the environment that both sides are imported from."""
    command = _parse_command(value)
    text = " ".join(map(str, command)) if isinstance(command, tuple | list) else ""
    for part in re.split(r"&&|[;|&\n]", text):
        words = part.split()
        for place, word in enumerate(words):
            program = words[place - 2] if word == "pip" and place > 1 and words[place - 1] == "-m" else word
            is_installer = re.fullmatch(r"pip[\d.]*|uv", PurePath(word).name) and {"install", "sync"} & {*words[place + 1 :]}
            is_installer = is_installer or (word.endswith("setup.py") and {"install", "develop"} & {*words[place + 1 :]})
            goes_elsewhere = any(option.split("=")[0] in _ELSEWHERE for option in words[place + 1 :])
            is_of_tree = "/" in program and not program.startswith(("/", "..", "~", "$"))  # an environment made by the build
            if is_installer and not goes_elsewhere and not is_of_tree:
                raise ValueError(
                    f"`{part.strip()}` would install one tree into your environment, and both sides would import that one. Write "
                    "`python setup.py build_ext --inplace`, or `pip install --no-deps --target build/site .` with build/site in "
                    "python_path"
                )
    return command


_ELSEWHERE = ("-t", "--target", "--prefix", "--root")
"""Options of pip that install into a folder."""


def _parse_harness(value: object) -> object:
    """Read a command, and refuse one whose results nobody could find."""
    command = _parse_command(value)
    if (
        isinstance(command, tuple | list)
        and command
        and not any("{out}" in str(word) or "{dir}" in str(word) for word in command)
    ):
        raise ValueError(
            "it names no place for its results: write {out} for the file, or {dir} for the folder, that it writes to"
        )
    return command


def _parse_folders(value: object) -> object:
    return tuple(value.split(os.pathsep)) if isinstance(value, str) else value


def _parse_bench(value: str) -> str:
    """Refuse a folder that no tree of a commit can have."""
    path = PurePath(value)
    if not value.strip() or path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{value!r} is not a folder within the repository: write a relative path without .., such as bench")
    return value


def _parse_json(value: object) -> object:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError("it is not JSON: in pyproject.toml, write tables") from None


def _parse_threshold(value: object) -> float | str:
    """Read ``auto``, or a fraction between 0 and 1."""
    if value == "auto":
        return "auto"
    fraction = parse_fraction(value)
    if not 0 < fraction < 1:
        bound = "a finite number" if math.isnan(fraction) else "greater than 0" if fraction <= 0 else "less than 1"
        raise ValueError(f"Input should be {bound}")
    return fraction


def _parse_gate(value: object) -> object:
    if isinstance(value, str) and value.endswith("%"):
        with contextlib.suppress(ValueError):
            return float(value[:-1]) / 100
    return value


Fraction = Annotated[float, BeforeValidator(parse_fraction), Field(gt=0, lt=1)]
Duration = Annotated[float, BeforeValidator(parse_duration), Field(ge=0)]


Format = Literal[
    "nvbench",
    "google-benchmark",
    "pytest-benchmark",
    "hyperfine",
    "triton",
    "pytorch",
    "asv",
    "codspeed",
    "criterion",
    "bencher",
    "json",
    "seed",
]
"""What another harness writes."""


class Settings(BaseModel):
    """Everything that a user can set. Field names are the keys of ``[tool.ratchet]``."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    bench: Annotated[str, AfterValidator(_parse_bench)] = "bench"
    """Folder of benchmarks, relative to the repository."""
    results: str = "results"
    """Folder for reports and the baseline, relative to the repository."""
    python_path: Annotated[tuple[str, ...], BeforeValidator(_parse_folders)] = (".", "src")
    """Folders of each tree from which its own packages are imported; as one string, separated as in PATH."""
    device: Literal["auto", "cuda", "cpu"] = "auto"
    """Device to measure on; ``auto``: a GPU if there is one."""
    pairs: Annotated[int, Field(ge=3, le=200)] = 100
    """Limit of pairs of fresh processes, one per side, for an undecided case. Fewer than 20 can prove no change."""
    budget: Duration = 90.0
    """After this long no further pair starts for undecided cases; every case gets its first six. 0: no limit."""
    blocks: Annotated[int, Field(ge=2, le=100)] = 8
    """Turns that each side takes in one pair, in the order A B B A; half of them where a GPU does not wait for the host."""
    block_ms: Annotated[float, Field(gt=0, le=10_000)] | None = None
    """Milliseconds of device time that one turn aims at; unless set, 3 on a GPU and 6 on the CPU."""
    placements: Annotated[int, Field(ge=1, le=64)] = 4
    """Places in GPU memory at which a worker builds a workload; its blocks use them in turn."""
    clock: Literal["auto", "event", "graph", "cold-graph"] = "auto"
    """GPU clock; ``auto`` takes what each workload asks for (``event`` unless it says otherwise)."""
    cache: Literal["cold", "warm"] = "cold"
    """Whether the L2 cache is emptied before each sample (GPU, event clock)."""
    cpu_threads: Annotated[int, Field(ge=1, le=1024)] = 1
    """Threads of a measurement on the CPU."""
    time_identical: bool = False
    """Time cases whose machine code is the same on both sides too."""
    tune_each_process: bool = False
    """Triton's autotuner chooses anew in each process, as for users who keep no choices."""
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] = 2025
    """Seed of the random inputs, the same on both sides: what torch.manual_seed takes."""
    order_seed: int = Field(ge=0, default_factory=lambda: secrets.randbelow(2**31))
    """Draws which side starts and is timed first in each pair, and the order of cases; a new one for each run, which records it.

    A fixed one would favour the same side by the same small amount in every run.
    """
    regression_threshold: Annotated[float | Literal["auto"], BeforeValidator(_parse_threshold)] = 0.03
    """The gate: a check fails above this slowdown. ``auto``: each case has its own, from its history."""
    improvement_threshold: Fraction = 0.05
    """A case counts as improved if it takes at least this much less time."""
    memory_limit: Annotated[int | None, BeforeValidator(parse_size), Field(gt=0)] = None
    """Most memory that a call may hold, for cases that name no limit of their own; None: no limit."""
    gates: Annotated[dict[GateName, Annotated[Gate, BeforeValidator(_parse_gate)]], BeforeValidator(_parse_json)] = {}
    """Gates on what a case takes besides time: ``off``, ``warn``, or the growth that fails it, such as ``10%``."""
    confidence: Annotated[float, Field(ge=0.5, lt=1)] = 0.95
    """Confidence level of the intervals in reports."""
    false_alarm: Fraction = 0.001
    """How often a whole run of unchanged code may be red."""
    mute: Annotated[tuple[Mute, ...], BeforeValidator(_parse_json)] = ()
    """Cases whose slowdowns fail nothing until a date, each with ``case``, ``owner``, ``reason`` and ``until``."""
    on_inconclusive: Literal["pass", "fail"] = "pass"
    """Whether inconclusive cases make a check exit 0 or 3. A case that looks slower without proof exits 3 in any case."""
    build: Annotated[tuple[str, ...], BeforeValidator(_parse_build)] = ()
    """Command run once in each tree before anything is timed, in the folder of the pyproject.toml that was read."""
    build_timeout: Duration = 1800.0
    """Longest that the build of one tree may take."""
    build_outputs: Annotated[tuple[str, ...], BeforeValidator(_parse_command)] = ()
    """What the build writes for the benchmarks: files, folders with a slash at the end, patterns. Without it nothing is kept."""
    build_cache: bool | Literal["read"] = True
    """Keep these outputs and reuse them for a tree with the same content; ``read`` reuses and keeps nothing new."""
    command: Annotated[tuple[str, ...], BeforeValidator(_parse_harness)] = ()
    """Command of another harness, timed in place of ``bench``; its results go to ``{out}``, a file, or ``{dir}``."""
    format: Format | None = None
    """What that command writes; None: recognised by its content."""
    machine: Annotated[str, Field(max_length=100)] = ""
    """Name of the machine that saved files of another harness come from, in place of theirs: a container has a random one."""
    command_timeout: Duration = 1800.0
    """Longest that one process of that command may take."""
    case_timeout: Duration = 120.0
    """Longest that one step of one case may take in a worker."""
    host_timeout: Duration = 300.0
    """Longest that importing a tree's benchmarks may take."""
    profile: Literal["auto", "never"] = "auto"
    """Whether a check profiles the cases that changed."""
    profile_cases: Annotated[int, Field(ge=0, le=100)] = 3
    """Most cases that one check profiles: the worst regressions, then the largest improvements."""
    profile_timeout: Annotated[float, BeforeValidator(parse_duration), Field(ge=1)] = 120.0
    """Longest that profiling all cases of one run may take, besides importing the trees."""
    models: Annotated[
        tuple[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,40}$")], ...], BeforeValidator(_parse_command)
    ] = ()
    """GPU models that measure a pull request, by the names that their jobs give; it is red if one of them is, or is missing."""
    baseline_mode: Literal["push", "pull-request", "branch"] = "push"
    """The way that the next baseline reaches the remote: onto the main branch, as a pull request, or on a branch of its own."""
    baseline_branch: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*$")] = (
        "ratchet-baseline"
    )
    """The branch that the modes ``pull-request`` and ``branch`` write."""
    history_branch: Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*)?$")] = (
        "ratchet-history"
    )
    """The branch that ``ratchet ci push`` keeps every judged run of main on; empty: none is kept there."""

    _project: str = PrivateAttr("")
    _given: frozenset[str] = PrivateAttr(frozenset())
    """Those of the settings of trees and sides that a variable or an option gives; they hold whatever a file says."""

    @property
    def project(self) -> str:
        """The folder of the pyproject.toml that was read, relative to the repository; all paths above begin with it."""
        return self._project

    def below(self, project: PurePath) -> Settings:
        """Return the settings of a project in a folder of the repository, with paths relative to the repository."""
        paths = {name: str(project / getattr(self, name)) for name in ("bench", "results")}
        outputs = [f"{project}/{output}" for output in self.build_outputs]  # whose last slash has a meaning
        folders = [str(project / folder) for folder in self.python_path]
        moved = self.model_copy(update={**paths, "python_path": tuple(folders), "build_outputs": tuple(outputs)})
        moved._project = str(project)
        return moved

    def as_in(self, text: str, name: str, keys: Iterable[str]) -> Settings:
        """Return these settings with the values that another version of their pyproject.toml has for some keys.

        Nothing changes if that version has no ``[tool.ratchet]``. ``name`` and errors are those of `settings_from`.
        """
        table = tool_table(text, name)
        if table is None:
            return self
        keys = [key for key in keys if key not in self._given]
        other = _validated({key: table[key] for key in keys if key in table}, {}, {})
        other = other.below(PurePath(self._project)) if self._project else other
        return self.model_copy(update={key: getattr(other, key) for key in keys})

    def block_ms_on(self, device: Device) -> float:
        return self.block_ms or BLOCK_MS[device]

    @property
    def policy(self) -> Policy:
        """The thresholds as the one object that the judge takes."""
        return Policy(**self._thresholds(_POLICY))

    def overriding(self, policy: Policy, options: Mapping[str, Any]) -> Policy:
        """Return a recorded policy with the thresholds that were given on the command line."""
        return policy.model_copy(update=self._thresholds([key for key in _POLICY if options.get(key) is not None]))

    def _thresholds(self, keys: Collection[str]) -> dict[str, Any]:
        """Return the fields of a policy that these settings set."""
        given = {_POLICY[key]: getattr(self, key) for key in keys}
        if given.get("regression") == "auto":
            given |= {"regression": Policy().regression, "follows_history": True, "case_gates": {}}
        elif "regression" in given:
            given |= {"follows_history": False, "case_gates": {}}
        return given


_POLICY = {
    "regression_threshold": "regression",
    "improvement_threshold": "improvement",
    "confidence": "confidence",
    "false_alarm": "false_alarm",
    "on_inconclusive": "on_inconclusive",
    "memory_limit": "memory_limit_bytes",
    "mute": "mutes",
    "gates": "gates",
}
"""Setting → its field of a policy."""


def load_settings(root: Path, environ: Mapping[str, str], options: Mapping[str, Any], folder: Path | None = None) -> Settings:
    """Read the settings for a ``folder`` of the repository at ``root``; ``options`` (None means not given) win over everything.

    They are those of the nearest pyproject.toml above the folder that has any, else of the one at the root.
    Raises UsageError naming the file or variable, the key, and what it may hold.
    """
    project = project_of(root, folder or root)
    path = project / "pyproject.toml"
    settings = settings_from(text_of(path), str(path), environ, options)
    if options.get("format") and not settings.command:
        raise UsageError("--format says what a --command writes, and there is none.", "Add --command, or leave --format out.")
    return settings if project == root else settings.below(project.relative_to(root))


def settings_from(text: str, name: str, environ: Mapping[str, str], options: Mapping[str, Any]) -> Settings:
    """Read the settings from the text of a pyproject.toml, which errors call ``name``; else as `load_settings`."""
    given = settings_of_environment(environ) | {name: value for name, value in options.items() if value is not None}
    settings = _validated((tool_table(text, name) or {}) | given, environ, options)
    settings._given = frozenset(given) & {*OF_EACH_TREE, *OF_BOTH_SIDES}
    return settings


def _validated(values: Mapping[str, Any], environ: Mapping[str, str], options: Mapping[str, Any]) -> Settings:
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        hint = "`ratchet doctor settings` shows what each may be."
        if first["type"] == "extra_forbidden":
            hint = f"{units.did_you_mean(key, list(Settings.model_fields))} `ratchet doctor settings` shows them all.".strip()
        place = "".join(f", {part}" if isinstance(part, str) else f", number {part + 1}" for part in first["loc"][1:])
        raise UsageError(f"{_source(key, environ, options)}{place}: {_sentence(first)}.", hint) from None


def project_of(root: Path, folder: Path) -> Path:
    """Return the nearest folder above whose pyproject.toml has our table; without one, the root."""
    for place in (folder, *folder.parents):
        if place == root or not place.is_relative_to(root):
            break
        path = place / "pyproject.toml"
        if tool_table(text_of(path), str(path)) is not None:
            return place
    return root


OTHER_VARIABLES = frozenset(
    {"CACHE_DIR", "BUILDS_DIR", "LOCK_DIR", "LOCK_CLOCKS", "CONTAINMENT", "EPHEMERAL", "APP_ID", "APP_PRIVATE_KEY", "WEBHOOK_URL"}
)
"""Ends of variables that begin with RATCHET_ and are no settings."""


def settings_of_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that variables give; an empty one gives none. Raises UsageError for one that nothing reads."""
    given = {name: value for name, value in environ.items() if name.startswith("RATCHET_") and value}
    known = {f"RATCHET_{field.upper()}": field for field in Settings.model_fields}
    for name in given:
        if name not in known and name.removeprefix("RATCHET_") not in OTHER_VARIABLES:
            near = units.did_you_mean(name, list(known))
            raise UsageError(f"environment variable {name}: there is no such setting.", f"{near} Unset or correct it.".strip())
    return {known[name]: value for name, value in given.items() if name in known}


def text_of(path: Path) -> str:
    """Return the text of a file of settings; empty where there is none. Raises UsageError for one that cannot be read."""
    if not path.is_file():
        return ""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not valid TOML: {error}.", "Fix the file and try again.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", "Check its permissions and try again.") from None


def tool_table(text: str, name: str) -> dict[str, Any] | None:
    """Return ``[tool.ratchet]``; None where the text has none."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{name}: not valid TOML: {error}.", "Fix the file and try again.") from None
    tool = document.get("tool", {})
    table = tool.get("ratchet") if isinstance(tool, dict) else tool
    if table is None:
        return None
    if not isinstance(table, dict):
        raise UsageError(f"{name}: [tool.ratchet] is not a table.", "Write it as [tool.ratchet] with one key a line.")
    return {key.replace("-", "_"): value for key, value in table.items()}


_OPTIONS = {"regression_threshold": "gate", "improvement_threshold": "improvement"}
"""Setting → its option on the command line, where that has another name."""


def _source(key: str, environ: Mapping[str, str], options: Mapping[str, Any]) -> str:
    if options.get(key) is not None:
        return f"--{_OPTIONS.get(key, key).replace('_', '-')}"
    if environ.get(f"RATCHET_{key.upper()}"):
        return f"environment variable RATCHET_{key.upper()}"
    return f"[tool.ratchet] {key} in pyproject.toml"


def _sentence(error: Any) -> str:
    if error["type"] == "extra_forbidden":
        return "there is no such setting"
    text = str(error["msg"]).removeprefix("Value error, ")
    return text[0].lower() + text[1:]
