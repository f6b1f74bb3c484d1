"""``[tool.ratchet]`` in pyproject.toml, then ``RATCHET_*`` in the environment, then options → Settings.

Every command calls `load_settings`; the trusted job on GitHub calls `settings_from` with a text from the API. Reads
pyproject.toml and nothing else: the environment and the options are arguments. docs/settings.md lists the settings.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ratchet import units
from ratchet.errors import UsageError
from ratchet.records.run import Policy
from ratchet.units import parse_size

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
    if isinstance(value, bool):
        raise ValueError(f"{value!r} is not a duration: write 90s or 20m")
    if isinstance(value, int | float):
        return float(value)
    match = _DURATION.match(str(value))
    if not match:
        raise ValueError(f"{value!r} is not a duration: write 90s or 20m")
    return float(match[1]) * _SECONDS[match[2]]


def _parse_command(value: object) -> object:
    return tuple(shlex.split(value)) if isinstance(value, str) else value


def _parse_folders(value: object) -> object:
    return tuple(value.split(os.pathsep)) if isinstance(value, str) else value


Fraction = Annotated[float, BeforeValidator(parse_fraction), Field(gt=0, lt=1)]
Duration = Annotated[float, BeforeValidator(parse_duration), Field(ge=0)]


class Settings(BaseModel):
    """Everything that a user can set. Field names are the keys of ``[tool.ratchet]``."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    bench: str = "bench"
    """Folder of benchmarks, relative to the repository."""
    results: str = "results"
    """Folder for reports and the baseline, relative to the repository."""
    python_path: Annotated[tuple[str, ...], BeforeValidator(_parse_folders)] = (".", "src")
    """Folders of each tree from which its own packages are imported; as one string, separated as in PATH."""
    device: Literal["auto", "cuda", "cpu"] = "auto"
    pairs: Annotated[int, Field(ge=3, le=200)] = 100
    """Most pairs of fresh processes, one per side, that an undecided case gets. Fewer than 20 can prove no change."""
    budget: Duration = 90.0
    """After this long no further pair starts for undecided cases; every case gets its first six. 0: no limit."""
    blocks: Annotated[int, Field(ge=2, le=100)] = 8
    """Turns that each side takes in one pair, in the order A B B A."""
    block_ms: Annotated[float, Field(gt=0, le=10_000)] = 6.0
    """Device time that one turn aims at."""
    placements: Annotated[int, Field(ge=1, le=64)] = 4
    """Places in GPU memory at which a worker builds a workload; its blocks use them in turn."""
    clock: Literal["auto", "event", "graph", "cold-graph"] = "auto"
    """GPU clock; ``auto`` takes what each workload asks for (``event`` unless it says otherwise)."""
    cache: Literal["cold", "warm"] = "cold"
    """Whether the L2 cache is emptied before each sample (GPU, event clock)."""
    cpu_threads: Annotated[int, Field(ge=1, le=1024)] = 1
    time_identical: bool = False
    """Time cases whose machine code is the same on both sides too."""
    seed: int = 2025
    """Seed of the random inputs, the same on both sides."""
    order_seed: Annotated[int, Field(ge=0, default_factory=lambda: secrets.randbelow(2**31))]
    """Draws which side starts and is timed first in each pair, and the order of cases; a new one for each run, which records it.

    A fixed one would favour the same side by the same small amount in every run.
    """
    regression_threshold: Fraction = 0.03
    improvement_threshold: Fraction = 0.05
    memory_limit: Annotated[int | None, BeforeValidator(parse_size), Field(gt=0)] = None
    """Most memory that a call may hold, for cases that name no limit of their own; None: no limit."""
    confidence: Annotated[float, Field(ge=0.5, lt=1)] = 0.95
    false_alarm: Fraction = 0.001
    """How often a whole run of unchanged code may be red."""
    on_inconclusive: Literal["pass", "fail"] = "pass"
    """Whether inconclusive cases make a check exit 0 or 3. A case that looks slower without proof exits 3 in any case."""
    build: Annotated[tuple[str, ...], BeforeValidator(_parse_command)] = ()
    """Command run once in each tree before anything is timed."""
    build_timeout: Duration = 1800.0
    build_outputs: Annotated[tuple[str, ...], BeforeValidator(_parse_command)] = ()
    """What the build writes for the benchmarks: files, folders with a slash at the end, patterns. Without it nothing is kept."""
    build_cache: bool | Literal["read"] = True
    """Keep these outputs and reuse them for a tree with the same content; ``read`` reuses and keeps nothing new."""
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
    baseline_mode: Literal["push", "pull-request", "branch"] = "push"
    """The way that the next baseline reaches the remote: onto the main branch, as a pull request, or on a branch of its own."""
    baseline_branch: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*$")] = (
        "ratchet-baseline"
    )
    """The branch that the modes ``pull-request`` and ``branch`` write."""

    @property
    def policy(self) -> Policy:
        """The thresholds as the one object that the judge takes."""
        return Policy(**{field: getattr(self, key) for key, field in _POLICY.items()})

    def overriding(self, policy: Policy, options: Mapping[str, Any]) -> Policy:
        """Return a recorded policy with the thresholds that were given on the command line."""
        given = {field: getattr(self, key) for key, field in _POLICY.items() if options.get(key) is not None}
        return policy.model_copy(update=given)


_POLICY = {
    "regression_threshold": "regression",
    "improvement_threshold": "improvement",
    "confidence": "confidence",
    "false_alarm": "false_alarm",
    "on_inconclusive": "on_inconclusive",
    "memory_limit": "memory_limit_bytes",
}
"""Setting → its field of a policy."""


def load_settings(root: Path, environ: Mapping[str, str], options: Mapping[str, Any]) -> Settings:
    """Read the settings of the repository at ``root``; ``options`` (None means not given) win over everything.

    Raises UsageError naming the file or variable, the key, and what it may hold.
    """
    return settings_from(_text_of(root / "pyproject.toml"), str(root / "pyproject.toml"), environ, options)


def settings_from(text: str, name: str, environ: Mapping[str, str], options: Mapping[str, Any]) -> Settings:
    """Read the settings from the text of a pyproject.toml, which errors call ``name``; else as `load_settings`."""
    values = _tool_table(text, name)
    values |= {
        name: environ[f"RATCHET_{name.upper()}"] for name in Settings.model_fields if environ.get(f"RATCHET_{name.upper()}")
    }
    values |= {name: value for name, value in options.items() if value is not None}
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        raise UsageError(
            f"{_source(key, environ, options)}: {_sentence(first)}.", "See the settings in docs/settings.md."
        ) from None


def origin_of_thresholds(
    settings: Settings, text: str, place: str, environ: Mapping[str, str], options: Mapping[str, Any]
) -> str:
    """Say both thresholds and where each comes from: ``gate 3 %, improvement 5 % from pyproject.toml of main at 533226cf33``.

    The arguments are those of `settings_from`; ``place`` names the file and its commit.
    """
    table = _tool_table(text, place)
    origins: dict[str, list[str]] = {}
    for key, word in (("regression_threshold", "gate"), ("improvement_threshold", "improvement")):
        if options.get(key) is not None:
            origin = "an option of this command"
        elif environ.get(f"RATCHET_{key.upper()}"):
            origin = f"this workflow, not from {place}"
        else:
            origin = place if key in table else f"the defaults, since {place} sets none"
        origins.setdefault(origin, []).append(f"{word} {units.threshold(getattr(settings, key))}")
    return "; ".join(f"{', '.join(values)} from {origin}" for origin, values in origins.items())


def _text_of(path: Path) -> str:
    if not path.is_file():
        return ""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not valid TOML: {error}.", "Fix the file and try again.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", "Check its permissions and try again.") from None


def _tool_table(text: str, name: str) -> dict[str, Any]:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{name}: not valid TOML: {error}.", "Fix the file and try again.") from None
    tool = document.get("tool", {})
    table = tool.get("ratchet", {}) if isinstance(tool, dict) else tool
    if not isinstance(table, dict):
        raise UsageError(f"{name}: [tool.ratchet] is not a table.", "Write it as [tool.ratchet] with one key a line.")
    return {key.replace("-", "_"): value for key, value in table.items()}


def _source(key: str, environ: Mapping[str, str], options: Mapping[str, Any]) -> str:
    if options.get(key) is not None:
        return f"option {key}"
    if environ.get(f"RATCHET_{key.upper()}"):
        return f"environment variable RATCHET_{key.upper()}"
    return f"[tool.ratchet] {key} in pyproject.toml"


def _sentence(error: Any) -> str:
    if error["type"] == "extra_forbidden":
        return f"there is no such setting (known: {', '.join(sorted(Settings.model_fields))})"
    text = str(error["msg"]).removeprefix("Value error, ")
    return text[0].lower() + text[1:]
