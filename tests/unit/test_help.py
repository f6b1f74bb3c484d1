"""Help pages: each ends with examples, and each example is a command that is taken."""

from __future__ import annotations

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
