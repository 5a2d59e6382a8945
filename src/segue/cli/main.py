"""The entry point: runs a command if the first word is one, else a chat. Loads only what is needed."""

from __future__ import annotations

import os
import sys

from segue.cli.exit_codes import Exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    _open_closed_streams()
    if any(stream.isatty() for stream in (sys.stdout, sys.stderr)):
        from segue.cli.display.terminal import install_gate  # noqa: PLC0415 - only a terminal needs it

        install_gate()
    words, debug = list(sys.argv[1:] if argv is None else argv), bool(os.environ.get("SEGUE_DEBUG"))
    if "--debug" in words:  # anywhere before `--`
        end = words.index("--") if "--" in words else len(words)
        before = [word for word in words[:end] if word != "--debug"]
        words, debug = [*before, *words[end:]], debug or len(before) < end
    if debug or "segue.cli.error_report" in sys.modules:
        from segue.cli import error_report  # noqa: PLC0415 - only an error needs it

        error_report.debug = debug
    try:
        code = _run(words)
        sys.stdout.flush()  # a closed pipe is noticed here, not when Python exits
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:  # the reader of our output is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except SystemExit as end:  # argparse has printed the reason
        return end.code if isinstance(end.code, int) else Exit.USAGE
    except Exception as error:
        if debug:
            raise
        from segue.cli.error_report import report_error  # noqa: PLC0415 - only an error needs it

        return report_error(error)
    return code


def _open_closed_streams() -> None:
    """Whoever started us may have closed them. Their numbers must not go to the next socket or file that is opened."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - pathlib is slow to load; open until the process ends


def _run(words: list[str]) -> int:
    if words[:1] == ["--version"]:
        from segue import __version__  # noqa: PLC0415

        sys.stdout.write(f"segue {__version__}\n")
        return Exit.OK
    from segue.cli.command_table import COMMANDS, find_plugin_command, run_command, run_plugin_command  # noqa: PLC0415 - not even argparse is needed before

    if words[:1] == ["help"] and len(words) <= 2 and all(word in COMMANDS for word in words[1:]):
        words = [*words[1:], "--help"]
    if words[:1] and words[0] in COMMANDS:
        return run_command(words[0], words[1:])
    is_word = bool(words) and not words[0].startswith("-")
    if is_word and (offered := find_plugin_command(words[0])) is not None:
        return run_plugin_command(offered, words[1:])
    from segue.cli.arguments import has_prompt, parse  # noqa: PLC0415

    arguments = parse(words)  # `--help` ends here
    if arguments.save:
        from segue.cli.display.terminal import print_status  # noqa: PLC0415
        from segue.cli.flag_values import save_template  # noqa: PLC0415

        print_status(f"Saved {save_template(arguments)}. Use it: segue -t {arguments.save}")
        return Exit.OK
    if sys.stdout.isatty() and not has_prompt(arguments) and sys.stdin.isatty():
        from segue.cli.interactive.chat_loop import run as run_interactive  # noqa: PLC0415 - slow to load

        return run_interactive(arguments)
    from segue.cli.one_shot.one_shot_chat import run as run_one_shot  # noqa: PLC0415

    return run_one_shot(arguments)
