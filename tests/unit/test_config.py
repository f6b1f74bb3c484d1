"""Settings: pyproject, then environment, then options."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from ratchet.core.config import (
    OF_BOTH_SIDES,
    OF_EACH_TREE,
    OTHER_VARIABLES,
    Settings,
    load_settings,
    parse_duration,
    parse_fraction,
    settings_from,
)
from ratchet.core.errors import Exit, UsageError
from ratchet.core.records.run import Policy
from ratchet.github.judge_again import origin_of_thresholds
from ratchet.manual.settings import describe_settings

ROOT = Path(__file__).parents[2]


def settings(
    tmp_path: Path, table: str = "", environ: dict[str, str] | None = None, options: dict[str, Any] | None = None
) -> Settings:
    (tmp_path / "pyproject.toml").write_text(f"[tool.ratchet]\n{table}\n", encoding="utf-8")
    return load_settings(tmp_path, environ or {}, options or {})


def refusal(tmp_path: Path, *given: Any) -> str:
    with pytest.raises(UsageError) as caught:
        settings(tmp_path, *given)
    assert caught.value.exit_code is Exit.USAGE
    assert caught.value.hint
    assert caught.value.message.endswith(".")
    return caught.value.message


def test_defaults(tmp_path: Path) -> None:
    """Without a file, a variable or an option the defaults hold; their policy is the default policy."""
    assert load_settings(tmp_path, {}, {"order_seed": 7}) == Settings(order_seed=7)
    assert Settings().policy == Policy()


def test_precedence(tmp_path: Path) -> None:
    """An option wins over a variable, a variable over the file; an option not given and an empty variable say nothing."""
    table = 'pairs = 5\nblocks = 6\nblock-ms = 7\ndevice = "cpu"'
    environ = {"RATCHET_PAIRS": "20", "RATCHET_BLOCKS": "30", "RATCHET_DEVICE": "", "UNRELATED": "x"}
    found = settings(tmp_path, table, environ, {"pairs": 40, "blocks": None})
    assert (found.pairs, found.blocks, found.block_ms, found.device) == (40, 30, 7.0, "cpu")


def test_policy(tmp_path: Path) -> None:
    """The thresholds travel as one object."""
    table = 'regression_threshold = "4%"\nimprovement_threshold = 0.1\nconfidence = 0.9\non_inconclusive = "fail"'
    assert settings(tmp_path, table).policy == Policy(regression=0.04, improvement=0.1, confidence=0.9, on_inconclusive="fail")


def test_a_gate_that_follows_the_history(tmp_path: Path) -> None:
    """``auto`` is a gate; a number on the command line takes its place, with those that a recorded run had of its own."""
    auto = settings(tmp_path, 'regression_threshold = "auto"')
    assert auto.policy == Policy(follows_history=True)
    recorded = Policy(follows_history=True, case_gates={"a/b": 0.01})
    assert auto.overriding(recorded, {}) == recorded
    given = settings(tmp_path, 'regression_threshold = "2%"').overriding(recorded, {"regression_threshold": "2%"})
    assert given == Policy(regression=0.02)


@pytest.mark.parametrize(
    ("value", "fraction"),
    [("3%", 0.03), ("3 %", 0.03), (" 0.5% ", 0.005), ("0.03", 0.03), (0.03, 0.03), ("150%", 1.5), (0, 0.0), ("-1%", -0.01)],
)
def test_fraction(value: object, fraction: float) -> None:
    """A percentage and a fraction mean the same."""
    assert parse_fraction(value) == pytest.approx(fraction)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (3, "3 is 100 % or more: write 3% for percent"),
        ("3", "3.0 is 100 % or more: write 3% for percent"),
        (1.0, "1.0 is 100 % or more: write 1% for percent"),
        ("three", "'three' is not a threshold: write 3% or 0.03"),
        ("%", "'%' is not a threshold: write 3% or 0.03"),
        (True, "True is not a threshold: write 3% or 0.03"),
        ([3], r"\[3\] is not a threshold: write 3% or 0.03"),
        (None, "None is not a threshold: write 3% or 0.03"),
    ],
)
def test_no_fraction(value: object, said: str) -> None:
    """A bare 3 could mean two things, so it is refused, with what to write instead."""
    with pytest.raises(ValueError, match=said):
        parse_fraction(value)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (90, 90),
        (1.5, 1.5),
        ("90", 90),
        ("90s", 90),
        (" 20 m ", 1200),
        ("20min", 1200),
        ("1.5h", 5400),
        ("250ms", 0.25),
        ("0s", 0),
    ],
)
def test_duration(value: object, seconds: float) -> None:
    """Durations take a unit; without one they are seconds."""
    assert parse_duration(value) == pytest.approx(seconds)


@pytest.mark.parametrize("value", ["soon", "", "-3s", "3 weeks", "1e3", True, None, [3]])
def test_no_duration(value: object) -> None:
    """Anything else is refused, with what to write instead."""
    with pytest.raises(ValueError, match="is not a duration: write 90s or 20m"):
        parse_duration(value)


@pytest.mark.parametrize(
    ("table", "environ", "options", "said"),
    [
        ("regression_threshold = 3", {}, {}, "[tool.ratchet] regression_threshold in pyproject.toml: 3 is 100 % or more: "),
        ("", {"RATCHET_REGRESSION_THRESHOLD": "3"}, {}, "variable RATCHET_REGRESSION_THRESHOLD: 3.0 is 100 % or more"),
        ("", {}, {"regression_threshold": "x"}, "--gate: 'x' is not a threshold: write 3% or 0.03."),
        ("", {}, {"case_timeout": "soon"}, "--case-timeout: 'soon' is not a duration"),
        ('regression_threshold = "150%"', {}, {}, "regression_threshold in pyproject.toml: input should be less than 1."),
        ('regression_threshold = "-1%"', {}, {}, "regression_threshold in pyproject.toml: input should be greater than 0."),
        ("case_timeout = -1", {}, {}, "case_timeout in pyproject.toml: input should be greater than or equal to 0."),
        ("case_timeout = inf", {}, {}, "case_timeout in pyproject.toml: input should be a finite number."),
        ("regression_threshold = nan", {}, {}, "regression_threshold in pyproject.toml: input should be a finite number."),
        ("pairs = 2", {}, {}, "pairs in pyproject.toml: input should be greater than or equal to 3."),
        *(
            (f'bench = "{bench}"', {}, {}, f"bench in pyproject.toml: '{bench}' is not a folder within the repository: write ")
            for bench in ("../kb", "kernels/../../kb", "/etc", "", " ")
        ),
        ('memory_limit = "4000"', {}, {}, "memory_limit in pyproject.toml: '4000' is not a size: write 4000MB."),
        ("", {}, {"format": "nvbench"}, "--format says what a --command writes, and there is none."),
        ("seed = 99999999999999999999999", {}, {}, "seed in pyproject.toml: input should be less than 9223372036854775808."),
        ("", {}, {"seed": -(2**63) - 1}, "--seed: input should be greater than or equal to -9223372036854775808."),
        ("", {"RATCHET_PAIRS": "many"}, {}, "environment variable RATCHET_PAIRS: input should be a valid integer"),
        ('device = "tpu"', {}, {}, "device in pyproject.toml: input should be 'auto', 'cuda' or 'cpu'."),
        ("build = 'make \"x'", {}, {}, "build in pyproject.toml: no closing quotation."),
        ("build = [1]", {}, {}, "build in pyproject.toml, number 1: input should be a valid string."),
    ],
)
def test_refusals(table: str, environ: dict[str, str], options: dict[str, Any], said: str, tmp_path: Path) -> None:
    """A refusal names where the value stands, the key, and what it may hold."""
    assert said in refusal(tmp_path, table, environ, options)


def test_unknown_key(tmp_path: Path) -> None:
    """An unknown key is named, with the one that was meant and no other; where none looks like it, with where all are listed."""
    for key, meant in (("regresion_threshold", "Did you mean regression_threshold? "), ("xyz", "")):
        with pytest.raises(UsageError) as caught:
            settings(tmp_path, f"{key} = 0.03")
        said = (
            f"[tool.ratchet] {key} in pyproject.toml: there is no such setting. {meant}`ratchet doctor settings` shows them all."
        )
        assert str(caught.value) == said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[tool.ratchet\n", "not valid TOML: Expected ']'"),
        (b"\xff\xfe", "not valid TOML: "),
        (b"[tool]\nratchet = 3\n", "[tool.ratchet] is not a table."),
        (b"tool = 3\n", "[tool.ratchet] is not a table."),
    ],
)
def test_broken_file(content: bytes, said: str, tmp_path: Path) -> None:
    """A pyproject.toml that cannot be read is named, with what is wrong."""
    path = tmp_path / "pyproject.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        load_settings(tmp_path, {}, {})
    assert str(path) in caught.value.message
    assert said in caught.value.message


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pyproject.toml that may not be read is one sentence too."""
    (tmp_path / "pyproject.toml").touch()

    def refuse(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(UsageError, match="cannot be read: Permission denied"):
        load_settings(tmp_path, {}, {})


@pytest.mark.parametrize("content", ["", "[project]\nname = 'x'\n", "[tool.ruff]\nline-length = 3\n"])
def test_no_table(content: str, tmp_path: Path) -> None:
    """A file without [tool.ratchet] changes nothing."""
    (tmp_path / "pyproject.toml").write_text(content, encoding="utf-8")
    assert load_settings(tmp_path, {}, {"order_seed": 7}) == Settings(order_seed=7)


@pytest.mark.parametrize("table", ["build = 'make -C \"my kernels\" all'", "build = ['make', '-C', 'my kernels', 'all']"])
def test_build(table: str, tmp_path: Path) -> None:
    """The build command is a list, or a string that a shell would split the same way."""
    assert settings(tmp_path, table).build == ("make", "-C", "my kernels", "all")


def test_python_path(tmp_path: Path) -> None:
    """Folders are a list, or a string as in PATH, so that a variable can hold them."""
    assert settings(tmp_path, "python_path = ['python', '.']").python_path == ("python", ".")
    assert settings(tmp_path, "", {"RATCHET_PYTHON_PATH": "python:."}).python_path == ("python", ".")


def test_the_origin_of_thresholds() -> None:
    """Each threshold has the file, the variable or the option that decided it; two from one place are said together."""
    place = "pyproject.toml of main at 533226cf33"

    def origin(text: str, environ: dict[str, str], options: dict[str, str | None]) -> str:
        return origin_of_thresholds(settings_from(text, place, environ, options), text, place, environ, options)

    none: dict[str, str | None] = {"regression_threshold": None}
    both = '[tool.ratchet]\nregression-threshold = "4%"\nimprovement_threshold = 0.05\n'
    assert origin(both, {}, none) == f"gate 4 %, improvement 5 % from {place}"
    assert origin("", {}, none) == f"gate 3 %, improvement 5 % from the defaults, since {place} sets none"
    given = origin(both, {"RATCHET_REGRESSION_THRESHOLD": "2%", "RATCHET_IMPROVEMENT_THRESHOLD": ""}, {})
    assert given == f"gate 2 % from this workflow, not from {place}; improvement 5 % from {place}"
    assert origin("", {}, {"regression_threshold": "1%"}).startswith("gate 1 % from an option of this command; ")
    auto = '[tool.ratchet]\nregression_threshold = "auto"\nimprovement_threshold = 0.05\n'
    assert origin(auto, {}, none) == f"gate auto, improvement 5 % from {place}"


@pytest.mark.parametrize(
    ("name", "meant"),
    [("RATCHET_PAIR", "RATCHET_PAIRS"), ("RATCHET_REGRESION_THRESHOLD", "RATCHET_REGRESSION_"), ("RATCHET_X", "")],
)
def test_a_variable_that_nothing_reads_is_an_error(name: str, meant: str, tmp_path: Path) -> None:
    """It is most likely a misspelled setting, and the nearest name is shown; an empty one is not given."""
    with pytest.raises(
        UsageError, match=f"environment variable {name}: there is no such setting.*{meant and f'Did you mean {meant}'}"
    ):
        load_settings(tmp_path, {name: "1"}, {})
    assert load_settings(tmp_path, {name: ""}, {"order_seed": 7}) == Settings(order_seed=7)


def test_every_variable_of_ours_is_known() -> None:
    """Whatever the package and the workflows read or set is a setting, or is listed beside them."""
    files = [*ROOT.glob("ratchet/**/*.py"), *ROOT.glob(".github/**/*.*"), *ROOT.glob("runners/*")]
    named = {name for file in files for name in re.findall(r"RATCHET_([A-Z][A-Z_]*[A-Z])\b", file.read_text(encoding="utf-8"))}
    filled_in = {"REPOSITORY", "COMMIT"}  # words of the templates
    assert named - {field.upper() for field in Settings.model_fields} - filled_in == OTHER_VARIABLES


def test_the_nearest_pyproject_counts(tmp_path: Path) -> None:
    """In a folder of the repository, that is the nearest one above with our table; its paths are relative to it."""
    project = tmp_path / "libs" / "a"
    (project / "src" / "deep").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.ratchet]\npairs = 30\n")
    (project / "pyproject.toml").write_text("[tool.ratchet]\nblocks = 4\nbuild_outputs = ['build/']\n")
    (project / "src" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    inner = load_settings(tmp_path, {}, {"results": "/elsewhere"}, project / "src" / "deep")
    assert (inner.blocks, inner.pairs, inner.project) == (4, 100, "libs/a")
    assert (inner.bench, inner.python_path, inner.build_outputs) == ("libs/a/bench", ("libs/a", "libs/a/src"), ("libs/a/build/",))
    assert inner.results == "/elsewhere"
    outer = load_settings(tmp_path, {}, {}, tmp_path / "libs")
    assert (outer.pairs, outer.bench, outer.project) == (30, "bench", "")


@pytest.mark.parametrize(
    "build",
    [
        "pip install -e .",
        ["python", "-m", "pip", "install", "."],
        ["bash", "-c", "cd sub && python3 -m pip install --no-deps ."],
        "/opt/torch/bin/pip3 install .",
        "uv pip install -e .",
        "uv sync",
        "python setup.py develop",
        "python setup.py build install",
    ],
)
def test_a_build_that_installs_is_refused(build: object) -> None:
    """Both sides would import the tree that was built last; the sentence says what to write instead."""
    with pytest.raises(ValidationError, match=r"would install one tree into your environment.* build_ext --inplace"):
        Settings(build=build)


@pytest.mark.parametrize(
    "build",
    [
        "make install-headers",
        "python setup.py build_ext --inplace",
        "pip install --no-deps --target build/site .",
        "pip install --target=build/site .",
        ["bash", "-c", "python -m venv .v && .v/bin/pip install ."],
        ["bash", "-c", ".v/bin/python -m pip install ."],
        "cmake --install build",
        "pip wheel .",
    ],
)
def test_other_builds_are_taken(build: object) -> None:
    """What stays in the tree, an environment of its own too, is no harm."""
    assert Settings(build=build).build


def test_every_setting_is_explained(tmp_path: Path) -> None:
    """With its value, where that comes from, and a sentence."""
    (tmp_path / "pyproject.toml").write_text("[tool.ratchet]\nregression-threshold = '2%'\n")
    shown = {each.name: each for each in describe_settings(tmp_path, {"RATCHET_PAIRS": "30"}, {"seed": 7}, tmp_path)}
    assert set(shown) == set(Settings.model_fields)
    assert all(each.meaning for each in shown.values())
    assert (shown["pairs"].value, shown["pairs"].source) == (30, "RATCHET_PAIRS")
    assert (shown["regression_threshold"].value, shown["regression_threshold"].source) == (0.02, f"{tmp_path}/pyproject.toml")
    assert (shown["blocks"].source, shown["seed"].source) == ("default", "option")


TABLE = '[tool.ratchet]\nbuild = "make O=2"\npython_path = "lib"\ncpu_threads = 8\npairs = 7\n'


def test_settings_of_another_version_of_the_file(tmp_path: Path) -> None:
    """Some keys are those of the other version, its defaults included; all others stay."""
    ours = settings(tmp_path, "build = 'make'\nbuild_outputs = 'out/'\npairs = 9")
    theirs = ours.as_in(TABLE, "pyproject.toml", OF_EACH_TREE)
    assert (theirs.build, theirs.build_outputs, theirs.python_path) == (("make", "O=2"), (), ("lib",))
    assert (theirs.pairs, theirs.cpu_threads) == (9, 1)
    assert ours.as_in("", "pyproject.toml", OF_EACH_TREE) == ours


def test_what_a_variable_or_an_option_gives_holds_for_every_version(tmp_path: Path) -> None:
    """It wins over what another version of the file says, as over this one."""
    ours = settings(tmp_path, "", {"RATCHET_BUILD": "ninja"}, {"cpu_threads": 2})
    theirs = ours.as_in(TABLE, "pyproject.toml", (*OF_EACH_TREE, *OF_BOTH_SIDES))
    assert (theirs.build, theirs.python_path, theirs.cpu_threads) == (("ninja",), ("lib",), 2)


def test_paths_of_another_version_are_those_of_its_project(tmp_path: Path) -> None:
    """In a project of a monorepo they are relative to its folder."""
    project = tmp_path / "packages" / "fast"
    project.mkdir(parents=True)
    (project / "pyproject.toml").write_text("[tool.ratchet]\npython_path = 'src'\n", encoding="utf-8")
    ours = load_settings(tmp_path, {}, {}, project)
    theirs = ours.as_in(TABLE, "pyproject.toml", OF_EACH_TREE)
    assert (ours.python_path, theirs.python_path) == (("packages/fast/src",), ("packages/fast/lib",))


def test_each_setting_is_of_a_tree_of_both_sides_or_of_neither() -> None:
    """A new setting has to be thought about: does it say what is measured?"""
    how_long_and_how_exactly = {
        *("pairs", "budget", "blocks", "block_ms", "time_identical", "tune_each_process"),
        *("seed", "order_seed", "build_timeout", "build_cache"),
        *("command_timeout", "case_timeout", "host_timeout", "format", "profile", "profile_cases", "profile_timeout"),
    }
    what_is_made_of_it = {
        *("results", "regression_threshold", "improvement_threshold", "memory_limit", "confidence", "false_alarm", "mute"),
        *("on_inconclusive", "gates", "models", "baseline_mode", "baseline_branch", "history_branch", "machine"),
    }
    known = [*OF_EACH_TREE, *OF_BOTH_SIDES, *how_long_and_how_exactly, *what_is_made_of_it]
    assert sorted(known) == sorted(Settings.model_fields)
