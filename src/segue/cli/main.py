"""The entry point: a command if the first word is one, else a prompt. Loads nothing that is not needed."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from segue.cli.exit_codes import Exit

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command or answer a prompt, and give the exit code."""
    words, debug = _without_debug(list(sys.argv[1:] if argv is None else argv))
    try:
        return _run(words)
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
        from segue.cli.error_report import explain  # noqa: PLC0415 - only an error needs it

        return explain(error)


def _without_debug(words: list[str]) -> tuple[list[str], bool]:
    """`--debug` may stand anywhere before `--`."""
    end = words.index("--") if "--" in words else len(words)
    before = [word for word in words[:end] if word != "--debug"]
    return [*before, *words[end:]], len(before) < end or bool(os.environ.get("SEGUE_DEBUG"))


def _run(words: list[str]) -> int:
    code = _answer(words)
    sys.stdout.flush()  # a reader who has gone away is met here, not when Python ends
    return code


def _answer(words: list[str]) -> int:
    if words[:1] == ["--version"]:
        return _version()
    from segue.cli.command_table import COMMANDS, run_command  # noqa: PLC0415 - not even argparse is needed before

    if words[:1] == ["help"] and len(words) <= 2 and all(word in COMMANDS for word in words[1:]):
        words = [*words[1:], "--help"]
    if words[:1] and words[0] in COMMANDS:
        return run_command(words[0], words[1:])
    from segue.cli.arguments import parse  # noqa: PLC0415

    arguments = parse(words)
    from segue.cli.one_shot.run import run  # noqa: PLC0415 - `--help` has ended before

    return run(arguments)


def _version() -> int:
    from segue import __version__  # noqa: PLC0415

    sys.stdout.write(f"segue {__version__}\n")
    return Exit.OK
