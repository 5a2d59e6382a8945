"""The words after `segue` when no command is among them: a prompt and how it shall be answered."""

from __future__ import annotations

import argparse
from typing import Any, Final

from segue.cli.command_table import COMMANDS, CommandParser, HelpFormatter, misspelt

APPROVAL_MODES: Final = ("ask", "auto-edit", "yolo", "plan")
EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
OUTPUT_FORMATS: Final = ("text", "json", "stream-json")
INPUT_FORMATS: Final = ("text", "stream-json")

DESCRIPTION = """One conversation with whichever language model comes next. Without a prompt: a chat. With one, or with
something piped in: one answer on stdout; everything else goes to stderr."""


def parser() -> argparse.ArgumentParser:
    made = CommandParser(
        prog="segue",
        usage="segue [OPTIONS] [PROMPT...]\n       segue COMMAND ...",
        description=DESCRIPTION,
        epilog=_epilog(),
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("words", metavar="PROMPT", nargs="*", help="what to ask; - reads it from stdin")
    made.add_argument(
        "-p", "--prompt", nargs="?", const="", metavar="PROMPT", help="ask this, never start a chat"
    )
    _add_model(made.add_argument_group("who answers"))
    _add_session(made.add_argument_group("the conversation"))
    _add_tools(made.add_argument_group("tools and limits"))
    _add_output(made.add_argument_group("input and output"))
    other = made.add_argument_group("other")
    other.add_argument(
        "--set", dest="sets", action="append", default=[], metavar="KEY=VALUE", help="a setting, for this run"
    )
    other.add_argument("--bare", action="store_true", help="read no config files, no AGENTS.md, no .mcp.json")
    other.add_argument("--debug", action="store_true", help="show where an error came from")
    other.add_argument("--version", action="store_true", help="tell the version and end")
    return made


def _add_model(group: Any) -> None:
    group.add_argument("-m", "--model", default="", help="provider/model, an alias or a profile")
    group.add_argument("--provider", default="", help="the provider, when -m names only a model")
    group.add_argument(
        "--fallback", default="", metavar="A,B", help="models to go to when the first one fails"
    )
    group.add_argument("--effort", choices=EFFORTS, help="how hard the model shall think")


def _add_session(group: Any) -> None:
    group.add_argument(
        "-c", "--continue", dest="last", action="store_true", help="go on with the last one of this directory"
    )
    group.add_argument(
        "-r",
        "--resume",
        nargs="?",
        const="",
        metavar="ID",
        help="go on with this one (id, its beginning, or title)",
    )
    group.add_argument("--fork", action="store_true", help="with -c or -r: go on in a copy")
    group.add_argument(
        "--take-over", action="store_true", help="with -c or -r: also when another process has it open"
    )
    group.add_argument("--no-session", "--ephemeral", action="store_true", help="keep nothing")
    group.add_argument("-s", "--system", default=None, metavar="TEXT", help="the system prompt")
    group.add_argument(
        "--append-system", default="", metavar="TEXT", help="say this too in the system prompt"
    )


def _add_tools(group: Any) -> None:
    group.add_argument(
        "-T",
        "--tool",
        dest="tools",
        action="append",
        default=[],
        metavar="NAME",
        help="a built-in tool, or file.py:function; all: every built-in one",
    )
    group.add_argument(
        "--allowed-tools", default="", metavar="A,B", help="tools that run without being asked about"
    )
    group.add_argument(
        "--approval-mode",
        choices=APPROVAL_MODES,
        help="what is asked about; where nobody can answer, asking is refusing",
    )
    group.add_argument("-y", "--yolo", action="store_true", help="--approval-mode yolo: ask about nothing")
    group.add_argument("--max-turns", type=_count, metavar="N", help="exchanges with the model; then exit 53")
    group.add_argument("--max-cost", type=_amount, metavar="USD", help="dollars; then exit 53")
    group.add_argument(
        "--timeout", type=_amount, metavar="SECONDS", help="for the whole answer; then exit 53"
    )
    group.add_argument(
        "--strict", action="store_true", help="refuse a switch after which the model is told less (exit 62)"
    )


def _add_output(group: Any) -> None:
    group.add_argument("--output-format", choices=OUTPUT_FORMATS, default="", help="text is the default")
    group.add_argument("--json", action="store_true", help="--output-format json")
    group.add_argument(
        "--input-format",
        choices=INPUT_FORMATS,
        default="text",
        help="stream-json: one message per line on stdin",
    )
    group.add_argument(
        "--include-partial-messages", action="store_true", help="with stream-json: text as it arrives"
    )
    group.add_argument(
        "--schema", default="", metavar="FILE|JSON", help="JSON Schema that the answer must follow"
    )
    group.add_argument("--output-last-message", default="", metavar="FILE", help="write the answer there too")
    group.add_argument("--hide-reasoning", action="store_true", help="do not show what the model thinks")
    group.add_argument("--plain", action="store_true", help="no colours, no Markdown, nothing painted twice")
    group.add_argument("--raw-output", action="store_true", help="leave terminal escapes in the answer")
    group.add_argument("-q", "--quiet", action="store_true", help="only the answer and errors")


def parse(words: list[str]) -> argparse.Namespace:
    """Read the words; wrong ones end the program with exit 2."""
    made = parser()
    arguments = made.parse_intermixed_args(words)
    if "--" not in words and (near := misspelt(words)):
        made.error(f'"{words[0]}" is no command. Did you mean "{near}"? As a prompt: segue -- {words[0]}')
    if arguments.version:
        made.error("--version stands alone")
    if arguments.json and arguments.output_format not in ("", "json"):
        made.error("--json and --output-format say different things")
    arguments.output_format = "json" if arguments.json else arguments.output_format or "text"
    if arguments.no_session and (arguments.last or arguments.resume is not None):
        made.error("--no-session keeps nothing, so there is nothing to go on with")
    if arguments.input_format == "stream-json" and (arguments.words or arguments.prompt):
        made.error("--input-format stream-json takes what to ask from stdin alone")
    if arguments.fork and not arguments.last and arguments.resume is None:
        made.error("--fork needs -c or -r: what shall be forked?")
    return arguments


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no whole number above 0")
    return int(text)


def _amount(text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if not 0 < amount < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no number above 0")
    return amount


def _epilog() -> str:
    width = max(map(len, COMMANDS)) + 2
    lines = [f"  {name:<{width}}{purpose}" for name, (_, purpose) in COMMANDS.items()]
    return "\n".join(
        [
            "commands:",
            *lines,
            "",
            "A command is one only as the first word: segue -- demo asks the model about demo.",
            "segue COMMAND --help tells what a command takes. Exit codes: docs/cli.md",
        ]
    )
