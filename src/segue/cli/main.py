"""The entry point: finds the command and loads nothing else."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from segue.cli.exits import Exit

if TYPE_CHECKING:
    from collections.abc import Sequence

_COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "convert": ("segue.cli.convert", "say a request of one provider in the dialect of another"),
    "doctor": ("segue.cli.doctor", "find what a provider would refuse in a transcript, and mend it"),
    "emulate": ("segue.cli.emulate", "serve strict stand-ins of the provider APIs on a port"),
    "demo": ("segue.cli.demo", "show what segue does, without a key"),
}
"""Name → module and what it is for. A command whose module is not there is not offered."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and give its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        return int(_run(words))
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:  # whoever read our output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except SystemExit as end:  # argparse has said what was wrong
        return end.code if isinstance(end.code, int) else Exit.USAGE
    except Exception as error:
        if debug:
            raise
        return _explain(error)


def _run(words: list[str]) -> int:
    if words[:1] == ["--version"]:
        return _version()
    name = next((word for word in words if not word.startswith("-")), "")
    parser = _parser(name)
    arguments = parser.parse_args(words)
    if not arguments.command:
        parser.print_help(sys.stderr)
        return Exit.USAGE
    run: Any = import_module(_COMMANDS[arguments.command][0]).run
    return int(run(arguments))


def _version() -> int:
    from importlib.metadata import version  # noqa: PLC0415 - slow to load, and nothing else needs it

    sys.stdout.write(f"segue {version('segue-llm')}\n")
    return Exit.OK


def _parser(name: str) -> argparse.ArgumentParser:
    """The parser with the arguments of one command; of the others it knows the names."""
    parser = argparse.ArgumentParser(
        prog="segue",
        description="One conversation, rendered valid for whichever language model comes next.",
        epilog="segue COMMAND --help tells the arguments of a command.",
    )
    parser.add_argument("--version", action="store_true", help="tell the version and end")
    parser.add_argument("--debug", action="store_true", help="show where an error came from")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for command, (module, purpose) in _COMMANDS.items():
        if command == name:
            loaded: Any = import_module(module) if find_spec(module) else None
            if loaded is not None:
                loaded.add_arguments(
                    commands.add_parser(command, help=purpose, description=loaded.DESCRIPTION)
                )
        elif find_spec(module) is not None:
            commands.add_parser(command, help=purpose)
    return parser


def _explain(error: Exception) -> int:
    from segue.cli.terminal import complain, say  # noqa: PLC0415 - only an error needs it
    from segue.errors import SegueError, TranscriptError, UsageError  # noqa: PLC0415

    if isinstance(error, SegueError):
        complain(error)
        if isinstance(error, UsageError):
            return Exit.USAGE
        if isinstance(error, TranscriptError):
            return Exit.WOULD_LOSE if error.code == "would_lose" else Exit.UNRENDERABLE
        return Exit.INTERNAL
    if isinstance(error, OSError):
        where = f": {error.filename}" if error.filename else ""
        say(f"segue: {error.strerror or error}{where}")
        return Exit.USAGE
    say(f"segue: something went wrong inside: {type(error).__name__}: {error}")
    say("       Please report it; --debug shows where it came from.")
    return Exit.INTERNAL
