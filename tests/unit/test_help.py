"""Help pages: each ends with examples, and each example is a command that is taken."""

from __future__ import annotations

import io
import json
import re
import shlex
import sys

import click
import pytest
from click.shell_completion import ShellComplete

from ratchet.core.cli import COMMANDS, EXAMPLES, FIRST, REMOVED, RENAMED, cli, main, page_of
from ratchet.core.errors import Exit
from ratchet.core.run import WORKERS

ALL = {"": cli, **{words: page_of(words) for words in COMMANDS}}
FOURTEEN = "init doctor check run compare bisect profile advise evaluate experiment tune variants history baseline"
EARLIER = (
    ("explain INCONCLUSIVE", "doctor explain INCONCLUSIVE"),
    ("list norm --json", "doctor cases norm --json"),
    ("settings", "doctor settings"),
    ("calibrate norm --time 5m --gate 2%", "doctor calibrate norm --time 5m --gate 2%"),
    ("soak --time 2h --plant 3.5%", "doctor soak --time 2h --plant 3.5%"),
    ("soak --report", "doctor soak --report"),
    ("open --json", "check --open --json"),
    ("open --json", "check --json --open"),
    ("report old.json --gate 5%", "compare old.json --gate 5%"),
    ("report", "compare"),
    ("replay a.json b.npz --gate 2%", "compare a.json b.npz --gate 2% --replay"),
    ("replay a.json --simulate 3000 --seed 1", "compare a.json --simulate 3000 --seed 1 --replay"),
    ("import 1.json 2.json --format nvbench --out r.json", "compare --join 1.json 2.json --format nvbench --out r.json"),
    ("merge 1.json 2.json", "ci merge 1.json 2.json"),
    ("publish folder --no-comment", "ci publish folder --no-comment"),
    ("recheck 7", "ci recheck 7"),
    ("command --id nightly", "ci command --id nightly"),
    ("notify a b --issues", "ci notify a b --issues"),
    ("baseline push folder --mode branch", "ci push folder --mode branch"),
    ("badge results/report.json --out b.json", "history --badge results/report.json --out b.json"),
    ("badge", "history --badge"),
    ("site --out _site --fetch", "history --out _site --fetch --html"),
    ("cost --price 2.5", "history cost --price 2.5"),
    ("history show norm --last 50", "history norm --last 50"),
    ("roofline norm run.json --out pictures", "variants --roofline norm run.json --out pictures"),
    ("study norm", "variants norm"),
    ("sweep norm --over n=1,2", "variants norm --over n=1,2"),
    ("quickwins bmm --pairs 12", "variants --quickwins bmm --pairs 12"),
)


def parsed(line: str) -> tuple[object, dict[str, object]]:
    """Return the function that a command line calls, and what it gets."""
    above = click.Context(cli)
    name, command, words = cli.resolve_command(above, shlex.split(line))
    with command.make_context(name, words, parent=above) as context:
        return command.callback, {key: str(value) for key, value in context.params.items()}


@pytest.mark.parametrize(("line", "now"), EARLIER)
def test_earlier_names_are_answered(line: str, now: str) -> None:
    """What people and workflows typed before means what its present words mean."""
    assert parsed(line) == parsed(now)


def test_the_table_of_earlier_names_is_whole() -> None:
    """Each earlier name stands in the table above, and no page of help names one."""
    assert {old for old in RENAMED if any(f"{line} ".startswith(f"{old} ") for line, _ in EARLIER)} == set(RENAMED)
    assert not set(RENAMED) & set(COMMANDS)


def test_the_first_screen(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`ratchet --help` shows fourteen commands, and what workflows call."""
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["--help"]) == 0
    page = capsys.readouterr().out
    assert len(page.splitlines()) <= 42
    listed = [words for words in COMMANDS if " " not in words]
    assert sorted(listed) == sorted([*FOURTEEN.split(), "ci"])
    assert [words for words in listed if f"\n  {words} " not in page] == []
    assert {f"ci {word}" for word in ("publish", "command", "notify", "merge", "push")} <= set(COMMANDS)


@pytest.mark.parametrize("words", ALL)
def test_a_page_of_help_fits_a_screen(words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It has at most 40 lines of 100 columns and three options; --help-all shows every option."""
    monkeypatch.setenv("COLUMNS", "102")
    main([*words.split(), "--help"])
    page = "".join(capsys.readouterr())
    assert [line for line in page.splitlines() if len(line) > 100] == []
    assert len(page.splitlines()) <= 40
    options = [option for option in ALL[words].params if isinstance(option, click.Option) and not option.is_eager]
    shown = [option for option in options if re.search(rf"^  (-\w, )?{option.opts[-1]}(?![\w-])", page, re.MULTILINE)]
    assert len(shown) == min(FIRST, len(options))
    assert main([*words.split(), "--help-all"]) == 0
    page = capsys.readouterr().out
    assert [option.name for option in options if option.opts[-1] not in page] == []


def test_run_says_of_its_processes_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    """Its page names one default of --pairs, that of the code."""
    assert main(["run", "--help-all"]) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert f"Fresh processes for each case (default: {WORKERS})." in page
    assert "(default: 100)" not in page


def completions(*words: str) -> set[str]:
    """Return what a shell offers for the last of these words."""
    return {item.value for item in ShellComplete(cli, {}, "ratchet", "").get_completions(list(words[:-1]), words[-1])}


@pytest.mark.parametrize("words", [words for words in COMMANDS if " " in words])
def test_a_shell_completes_both_words_of_a_command(words: str) -> None:
    """Half of a second word is completed behind the first, and what follows both is completed with the options of both."""
    first, second = words.split()
    begun = second[:3] if second.startswith("-") else ""
    assert first in completions("")
    assert second in completions(first, begun)
    names = {option for parameter in ALL[words].params for option in parameter.opts if option.startswith("--")}
    assert names <= completions(first, second, "--") | {"--help-all"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["chekc"], "Did you mean check?"),
        (["xyzzy"], "No such command"),
        (["doctor", "soka"], "Did you mean doctor soak?"),
        (["baseline", "recrod"], "Did you mean baseline record?"),
    ],
)
def test_a_misspelled_command(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The command that was meant is named, where one looks like it."""
    assert main(words) == Exit.USAGE
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", REMOVED)
def test_a_removed_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence says that it is gone and what there is instead, whatever options came with it; no command has its name."""
    assert name not in COMMANDS
    for words in ([name], [name, "some.json", "--out", "x"], [name, "--help"]):
        assert main(words) == Exit.USAGE
        assert capsys.readouterr() == ("", f"ratchet: {REMOVED[name]}\n")


@pytest.mark.parametrize(
    ("words", "completed"), [("ratchet ch", "check"), ("ratchet check --jun", "--junit"), ("ratchet check --clock ev", "event")]
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_options_and_values(
    shell: str, words: str, completed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the line in the docs sets it up; click answers the shell."""
    number = len(words.split()) - 1
    last = words.rsplit(maxsplit=1)[-1] if shell == "fish" else str(number)
    environ = {"_RATCHET_COMPLETE": f"{shell}_complete", "COMP_WORDS": words, "COMP_CWORD": last}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        cli.main(args=[], prog_name="ratchet", standalone_mode=False)
    assert completed in capsys.readouterr().out


def test_a_schema_is_printed_without_a_checkout(capsys: pytest.CaptureFixture[str]) -> None:
    """Each file that crosses a machine has one; a name that is none gets the list."""
    assert main(["settings", "--schema", "list"]) == 0
    names = capsys.readouterr().out.split()
    assert {"run", "baseline", "tuning"} <= set(names)
    assert main(["settings", "--schema", "run"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "RunRecord"
    assert main(["settings", "--schema", "runs"]) == Exit.USAGE
    assert "There is one of run, " in capsys.readouterr().err


def test_every_help_page_has_an_example() -> None:
    """A command without one belongs into a table of examples; the tables have no other."""
    assert set(EXAMPLES) == set(ALL)


def test_a_value_has_the_name_of_what_it_is() -> None:
    """A help page says DURATION, not the name of the function that reads one."""
    for name in COMMANDS:
        command = page_of(name, brief=False)
        page = command.get_help(click.Context(command, info_name=name))
        assert not {"CONVERT", "FUNCTION", "<LAMBDA>"} & set(page.split()), name
    assert "--wait DURATION" in page_of("check", brief=False).get_help(click.Context(ALL["check"]))


@pytest.mark.parametrize(("name", "line"), [(name, line) for name, lines in EXAMPLES.items() for line in lines])
def test_an_example_is_taken(name: str, line: str) -> None:
    """Its options and arguments are those of the command, and its help shows it."""
    words = shlex.split(line.partition("   ")[0])
    words = words[words.index("ratchet") + 1 :]
    assert {*name.split()} <= {*words}
    assert parsed(shlex.join(words))[0] in (
        ALL[name].callback,
        *(ALL[inner].callback for inner in ALL if name in ("", *inner.split()[:-1])),
    )
    assert line in ALL[name].get_help(click.Context(ALL[name], info_name=name))


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_a_letter_that_a_terminal_lacks_hides_no_result(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the locale has no letter for a bullet, a command prints a question mark for it, and ends as it would."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding, write_through=True))
    assert main(["explain", "verdicts"]) == Exit.PASS
    assert b"?" in written.getvalue()
