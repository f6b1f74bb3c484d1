"""`ratchet check --env`: two environments of Python, one commit."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.core.report.progress import Progress
from ratchet.environments.pythons import side_pythons
from tests.integration.playground import LENIENT, QUICK, Playground

BENCH = """\
import torch
from ratchet import Workload, benchmark
from waits import wait


@benchmark(devices=("cpu",))
def waiting(*, device):
    x = torch.zeros(8)

    def run():
        wait()
        return x + 1

    return Workload(run=run, reference=lambda: x.double() + 1)
"""
WAITS = "import time\n\n\ndef wait():\n    time.sleep({seconds})\n"
METADATA = "Metadata-Version: 2.1\nName: waits\nVersion: {version}\n"


@pytest.fixture
def play(make: Callable[..., Playground]) -> Playground:
    return make({"bench/waiting.py": BENCH})


def wheel(folder: Path, version: str, seconds: float) -> Path:
    """Write a release of a package that waits."""
    path = folder / f"waits-{version}-py3-none-any.whl"
    info = f"waits-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("waits.py", WAITS.format(seconds=seconds))
        file.writestr(f"{info}/METADATA", METADATA.format(version=version))
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")
    return path


def interpreter(folder: Path, name: str, version: str, seconds: float, options: str = "") -> Path:
    """Write a program that runs our Python with that package installed, in the place that a virtual environment has one."""
    packages = folder / name / "packages"
    (packages / f"waits-{version}.dist-info").mkdir(parents=True)
    (packages / f"waits-{version}.dist-info" / "METADATA").write_text(METADATA.format(version=version))
    (packages / "waits.py").write_text(WAITS.format(seconds=seconds))
    path = folder / name / "bin" / "python"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH{os.pathsep}{packages}" exec {sys.executable} {options} "$@"\n')
    path.chmod(0o755)
    return path.parent.parent


@pytest.mark.slow
def test_a_slower_release_of_a_package_is_found_with_one_commit_on_both_sides(play: Playground, tmp_path: Path) -> None:
    """Each side runs in its own environment, the report begins with what differs, and no baseline or history takes the run."""
    new, reference = interpreter(tmp_path, "new", "2.0", 0.02), interpreter(tmp_path, "old", "1.0", 0.001)
    done = play.ratchet("check", *QUICK, *LENIENT, "--pairs", "40", "--env", f"new={new}", "--env", f"reference={reference}")
    assert done.code == 1, done
    assert "waits 2.0 against 1.0" in done.err
    report = done.report
    assert report.warnings[0] == "Each side ran in an environment of its own: waits 2.0 against 1.0."
    assert report.cases[0].comparison
    assert report.cases[0].comparison.ratio > 4
    assert report.reference
    assert report.head.commit == report.reference.commit
    assert f"Head and reference are both {report.head.commit[:10]} " in done.markdown
    assert "| waits | 2.0 in the head, 1.0 in the reference |" in done.markdown
    refused = play.ratchet("baseline", "record")
    assert (refused.code, "two environments" in refused.err) == (2, True), refused
    play.assert_clean()


@pytest.mark.slow
def test_requirements_are_put_before_what_is_installed(play: Playground, tmp_path: Path) -> None:
    """A requirement, and a file of them, each make a side; the second check of them installs nothing."""
    new = wheel(tmp_path, "2.0", 0.002)
    listed = tmp_path / "old.txt"
    listed.write_text(f"{wheel(tmp_path, '1.0', 0.002)}\n")
    sides = ("--env", f"new=waits@{new.as_uri()}", "--env", f"reference={listed}")
    done = play.ratchet("check", *QUICK, *LENIENT, *sides)
    assert done.code in (0, 3), done
    assert done.report.warnings[0].endswith("waits 2.0 against 1.0.")
    assert "Installing old.txt" in done.err
    again = play.ratchet("check", *QUICK, *LENIENT, *sides, "--pairs", "1")
    assert "Installing" not in again.err, again


@pytest.fixture
def version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Make an environment of the file all.txt; return the version of `waits` there, and how many were made so far."""
    monkeypatch.setenv("RATCHET_CACHE_DIR", str(tmp_path / "cache"))
    path = os.pathsep.join((str(tmp_path), os.environ["PATH"]))
    environ = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PATH": path}

    def made() -> str:
        differs = side_pythons({"reference": str(tmp_path / "all.txt")}, environ, Progress()).differs
        count = len(list((tmp_path / "cache" / "environments").iterdir()))
        return f"{next(each.reference for each in differs if each.name == 'waits')} in folder {count}"

    return made


@pytest.mark.slow
def test_an_environment_is_kept_until_the_installer_chooses_otherwise(version: Callable[[], str], tmp_path: Path) -> None:
    """A new release in an open range, another text of an included file, and another content of a wheel each count."""
    wheel(tmp_path, "1.0", 0)
    (tmp_path / "all.txt").write_text("-r inner.txt\n")
    (tmp_path / "inner.txt").write_text("waits>=1\n")
    assert [version(), version()] == ["1.0 in folder 1", "1.0 in folder 1"]
    wheel(tmp_path, "1.1", 0)
    assert version() == "1.1 in folder 2"
    (tmp_path / "inner.txt").write_text("waits==1.0\n")
    assert version() == "1.0 in folder 2"
    (tmp_path / "inner.txt").write_text(f"{wheel(tmp_path, '1.2', 0)}\n")
    assert version() == "1.2 in folder 3"
    wheel(tmp_path, "1.2", 1)
    assert version() == "1.2 in folder 4"


UV = """\
#!/bin/sh
case " $* " in *" --dry-run "*) cat {choice} >&2; exit;; esac
shift 4
exec {python} -m pip install "$@"
"""


@pytest.mark.slow
def test_what_uv_chooses_names_an_environment(version: Callable[[], str], tmp_path: Path) -> None:
    """With uv, whose lines say what it would install, a file that lies here counts with its content."""
    choice = tmp_path / "choice"
    (tmp_path / "uv").write_text(UV.format(choice=choice, python=sys.executable))
    (tmp_path / "uv").chmod(0o755)
    (tmp_path / "all.txt").write_text("waits>=1\n")
    wheel(tmp_path, "1.0", 0)
    choice.write_text("Would install 1 package\n + waits==1.0\n")
    assert [version(), version()] == ["1.0 in folder 1", "1.0 in folder 1"]
    choice.write_text(f"Would install 1 package\n + waits @ {wheel(tmp_path, '1.1', 0).as_uri()}\n")
    assert [version(), version()] == ["1.1 in folder 2", "1.1 in folder 2"]
    wheel(tmp_path, "1.1", 1)
    assert version() == "1.1 in folder 3"


OLD = "import sys; sys.version_info = (3, 10, 13); exec(sys.argv.pop(1))"
"""Has a Python be an older one, which knows no option that is newer either."""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--env", "reference=/nowhere/python"], "There is no /nowhere/python. Name an interpreter"),
        (["--env", "reference={play}"], "bin/python. Name an interpreter, or the folder of a virtual environment."),
        (["--env", "reference={bare}"], "has no torch pydantic nvidia-ml-py numpy, which the processes that measure import."),
        (["--env", "reference=/bin/true"], "/bin/true does not run as a Python."),
        (["--env", "reference={old}"], "is Python 3.10.13; measuring needs 3.11 to 3.13."),
        (["--env", "reference={new}"], "cannot be written: Not a directory. Set RATCHET_CACHE_DIR to another folder."),
        (["--env", f"reference={sys.executable}"], "Both environments hold the same packages."),
        (["--env", "old=/bin/true"], "'old=/bin/true' is neither new=PATH nor reference=PATH."),
        (["--env", "reference=waits==0.1 --no-index"], "could not install waits==0.1 --no-index: "),
        (["--env", "new=/bin/true", "--against-baseline"], "A baseline holds for one environment"),
    ],
)
def test_an_environment_that_cannot_serve_is_refused_in_a_sentence(
    play: Playground, tmp_path: Path, words: list[str], sentence: str
) -> None:
    """It says what is wrong with it before anything is measured."""
    places = {"play": play.repo, "bare": interpreter(tmp_path, "bare", "1.0", 0, "-I -S"), "old": tmp_path / "old"}
    places["new"] = interpreter(tmp_path, "new", "2.0", 0)
    places["old"].write_text(f"#!/bin/sh\n[ $1 = -c ] && shift && exec {sys.executable} -c '{OLD}' \"$@\"\n")
    places["old"].chmod(0o755)
    (tmp_path / "file").write_text("in the place of a folder\n")
    env = {"RATCHET_CACHE_DIR": str(tmp_path / "file")} if "reference={new}" in words else {}
    done = play.ratchet("check", *QUICK, *(word.format(**places) for word in words), env=env)
    assert done.code == 2, done
    assert sentence in done.err
    assert not play.repo.joinpath("results/current.json").exists()


@pytest.mark.slow
def test_the_release_that_made_a_case_slower_is_found(play: Playground, tmp_path: Path) -> None:
    """The released versions between two are searched as commits are; a pre-release and what lies outside are not among them."""
    releases = {"1.0": 0.001, "1.9": 0.001, "1.10": 0.001, "2.0": 0.02, "2.1": 0.02, "2.2rc1": 0.02, "3.0": 0.2}
    for version, seconds in releases.items():
        wheel(tmp_path, version, seconds)
    index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    search = ("bisect", "waiting", "--device", "cpu", "--pairs", "40", "--blocks", "2", "--no-profile")
    done = play.ratchet(*search, "--env", "waits==1.9..2.0", env=index)
    assert done.code == 1, done
    assert "2 versions of waits after 1.9 up to 2.0" in done.err
    assert 'This version made waiting slower:\n  2.0 "waits"' in done.out
    assert "ratchet bisect waiting --env waits==1.10..2.0 --again" in done.out
    play.assert_clean()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("waits==1.0..4.0", "waits has no version 4.0. There are "),
        ("waits==2.0..1.0", "1.0 is no later version than 2.0."),
        ("nothing==1.0..2.0", "`pip index versions nothing` lists no versions: "),
        ("waits", "--env takes PACKAGE==A..B, such as triton==3.5.0..3.7.1"),
    ],
)
def test_versions_that_cannot_be_searched_are_refused(play: Playground, tmp_path: Path, words: str, sentence: str) -> None:
    """The sentence says which versions there are."""
    wheel(tmp_path, "1.0", 0)
    wheel(tmp_path, "2.0", 0)
    index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    done = play.ratchet("bisect", "waiting", "--device", "cpu", "--env", words, env=index)
    assert (done.code, sentence in done.err) == (2, True), done
