"""Help pages: each ends with examples, and each example is a command that is taken."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

import click
import pytest

from ratchet.core.cli import COMMANDS, EXAMPLES, REMOVED, cli, main
from ratchet.core.errors import Exit


def commands() -> Iterator[tuple[str, click.Command]]:
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command
        yield name, command
        yield from ((f"{name} {own}", inner) for own, inner in getattr(command, "commands", {}).items())


ALL = {"": cli, **dict(commands())}


@pytest.mark.parametrize(("word", "said"), [("chekc", "Did you mean check?"), ("xyzzy", "No such command")])
def test_a_misspelled_command(word: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The command that was meant is named, where one looks like it."""
    assert main([word]) == Exit.USAGE
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
    """A command without one belongs into the table of ratchet/core/cli/examples.py; the table has no other."""
    assert set(EXAMPLES) == set(ALL)


def test_a_value_has_the_name_of_what_it_is() -> None:
    """A help page says DURATION, not the name of the function that reads one."""
    for name, command in ALL.items():
        page = command.get_help(click.Context(command, info_name=name))
        assert not {"CONVERT", "FUNCTION", "<LAMBDA>"} & set(page.split()), name
    assert "--wait DURATION" in ALL["check"].get_help(click.Context(ALL["check"]))


@pytest.mark.parametrize(("name", "line"), [(name, line) for name, lines in EXAMPLES.items() for line in lines])
def test_an_example_is_taken(name: str, line: str) -> None:
    """Its options and arguments are those of the command, and its help shows it."""
    words = shlex.split(line.partition("   ")[0])
    words = words[words.index("ratchet") + 1 :]
    count = len(name.split())
    assert words[:count] == name.split()
    ALL[name].make_context(name, words[count:])
    assert line in ALL[name].get_help(click.Context(ALL[name], info_name=name))
