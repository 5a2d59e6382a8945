"""The arguments of `segue [PROMPT]`, one-shot or interactive. The commands have parsers of their own."""

from __future__ import annotations

import argparse

from segue.cli.command_table import COMMANDS, SET, CommandParser, help_formatter, near_miss

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

APPROVAL_MODES: Final = ("ask", "auto-edit", "yolo", "plan")
SANDBOX_MODES: Final = ("workspace", "read-only", "off")
EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
OUTPUT_FORMATS: Final = ("text", "json", "stream-json")
INPUT_FORMATS: Final = ("text", "stream-json")

DESCRIPTION = """Chat with any language model, and switch the model at any time. Without a prompt: an interactive chat.
With a prompt, or with piped input: one answer on stdout; everything else goes to stderr."""


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return int(text)


def _amount(text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if not 0 < amount < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return amount


ARGUMENTS: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "": {
        "words": {"metavar": "PROMPT", "nargs": "*", "help": "what to ask; - reads it from stdin"},
        "-p --prompt": {
            "nargs": "?",
            "const": "",
            "metavar": "PROMPT",
            "help": "what to ask; never starts an interactive chat",
        },
        "-a --attach": {
            "dest": "attachments",
            "action": "append",
            "default": [],
            "metavar": "FILE|URL|-",
            "help": "attach an image, a PDF, a sound or a text; - is stdin. In a prompt: @FILE",
        },
        "-t --template": {"default": "", "metavar": "NAME", "help": "a prompt of your own: segue templates"},
        "--var": {
            "dest": "variables",
            "action": "append",
            "default": [],
            "metavar": "NAME=VALUE",
            "help": "a variable of the template",
        },
        "--save": {
            "default": "",
            "metavar": "NAME",
            "help": "save prompt, model, system prompt, tools, schema and options as a template, and send nothing",
        },
    },
    "model": {
        "-m --model": {"default": "", "help": "provider/model, an alias or a profile"},
        "--provider": {"default": "", "help": "the provider, if -m names only a model"},
        "--fallback": {
            "default": "",
            "metavar": "A,B",
            "help": "models to use if the first one fails, also between the tool calls of a turn",
        },
        "--effort": {"choices": EFFORTS, "help": "reasoning effort"},
        "--temperature": {"type": float, "metavar": "T", "help": "0: always the likeliest word"},
        "--max-tokens": {"type": _count, "metavar": "N", "help": "limit of the length of a reply"},
        "-o --option": {
            "dest": "options",
            "action": "append",
            "default": [],
            "metavar": "KEY=VALUE",
            "help": "an option of the model: temperature, top_p, seed, … (docs/cli.md)",
        },
    },
    "session": {
        "-c --continue": {
            "dest": "last",
            "action": "store_true",
            "help": "resume the last session of this directory",
        },
        "-r --resume": {
            "nargs": "?",
            "const": "",
            "metavar": "ID",
            "help": "resume this session (its id, the start of its id, or its title)",
        },
        "--fork": {"action": "store_true", "help": "with -c or -r: resume a copy of the session"},
        "--take-over": {"action": "store_true", "help": "with -c or -r: even if another process has it open"},
        "--no-session --ephemeral": {"action": "store_true", "help": "do not save the session"},
        "-s --system": {"default": None, "metavar": "TEXT", "help": "the system prompt"},
        "--append-system": {"default": "", "metavar": "TEXT", "help": "add this to the system prompt"},
    },
    "tools and limits": {
        "-T --tool": {
            "dest": "tools",
            "action": "append",
            "default": [],
            "metavar": "NAME",
            "help": "a built-in tool, file.py:function or agent:NAME; all: every built-in tool; agents; none: no tools",
        },
        "--allowed-tools": {"default": "", "metavar": "A,B", "help": "tools that run without approval"},
        "--approval-mode": {
            "choices": APPROVAL_MODES,
            "help": "which calls need approval; without a terminal, a call that needs it is refused",
        },
        "--sandbox": {
            "choices": SANDBOX_MODES,
            "help": "what commands may touch: workspace: write there, see no keys, no network; read-only; off",
        },
        "-y --yolo": {"action": "store_true", "help": "--approval-mode yolo: approve every call"},
        "--max-turns": {"type": _count, "metavar": "N", "help": "limit of requests to the model (exit 53)"},
        "--max-cost": {"type": _amount, "metavar": "USD", "help": "limit of cost in dollars (exit 53)"},
        "--timeout": {
            "type": _amount,
            "metavar": "SECONDS",
            "help": "limit of time for the whole answer (exit 53)",
        },
        "--strict": {
            "action": "store_true",
            "help": "refuse a switch that hides something from the new model (exit 62)",
        },
    },
    "input and output": {
        "--output-format": {"choices": OUTPUT_FORMATS, "default": "", "help": "default: text"},
        "--json": {"action": "store_true", "help": "--output-format json"},
        "--input-format": {
            "choices": INPUT_FORMATS,
            "default": "text",
            "help": "stream-json: one message per line on stdin",
        },
        "--include-partial-messages": {
            "action": "store_true",
            "help": "with stream-json: text as it arrives",
        },
        "--schema": {
            "default": "",
            "metavar": "FILE|JSON|FIELDS",
            "help": "JSON Schema that the answer must match, or its fields: 'name, age int'",
        },
        "-x --extract": {
            "action": "store_true",
            "help": "print only the code of the answer: its first fenced block",
        },
        "-u --usage": {"action": "store_true", "help": "print tokens and cost, also into a pipe"},
        "--output-last-message": {"default": "", "metavar": "FILE", "help": "also write the answer to FILE"},
        "--hide-reasoning": {"action": "store_true", "help": "do not show the model's reasoning"},
        "--plain": {"action": "store_true", "help": "no colours, no Markdown, no repainting"},
        "--raw-output": {"action": "store_true", "help": "keep terminal escape sequences in the answer"},
        "-q --quiet": {"action": "store_true", "help": "only the answer and errors"},
    },
    "other": {
        **SET,
        "--bare": {"action": "store_true", "help": "read no config files, no AGENTS.md, no .mcp.json"},
        "--debug": {
            "action": "store_true",
            "help": "show the traceback of an error, and the ids and repairs of a refused request",
        },
        "--version": {"action": "store_true", "help": "print the version and exit"},
    },
}
"""By the group that `--help` shows them in: flags, and what `add_argument` takes besides."""

_WIDTH = max(map(len, COMMANDS)) + 2
EPILOG = "\n".join(
    [
        "commands:",
        *(f"  {name:<{_WIDTH}}{purpose}" for name, purpose in COMMANDS.items()),
        "",
        "A command must be the first word: segue -- demo asks the model about demo.",
        "Help for a command: segue COMMAND --help. Exit codes: docs/cli.md",
    ]
)


def parser() -> argparse.ArgumentParser:
    made = CommandParser(
        prog="segue",
        usage="segue [OPTIONS] [PROMPT...]\n       segue COMMAND ...",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=help_formatter(),
        allow_abbrev=False,
    )
    made.set_defaults(template_options={})
    for title, arguments in ARGUMENTS.items():
        group = made.add_argument_group(title) if title else made
        for flags, settings in arguments.items():
            group.add_argument(*flags.split(), **settings)
    return made


def parse(words: list[str]) -> argparse.Namespace:
    """Wrong words end the program with exit 2."""
    made = parser()
    _refuse_near_misses(made, words)
    arguments = made.parse_intermixed_args(words)
    if arguments.version:
        made.error("--version takes no other arguments")
    if arguments.json and arguments.output_format not in ("", "json"):
        made.error("--json contradicts --output-format")
    arguments.output_format = "json" if arguments.json else arguments.output_format or "text"
    if arguments.no_session and (arguments.last or arguments.resume is not None):
        made.error("--no-session cannot be used with -c or -r")
    if arguments.input_format == "stream-json" and (arguments.words or arguments.prompt):
        made.error("--input-format stream-json reads prompts only from stdin")
    if arguments.attachments and arguments.input_format == "stream-json":
        made.error("-a cannot be used with --input-format stream-json")
    if arguments.extract and arguments.output_format != "text":
        made.error("-x prints code: it cannot be used with --json or --output-format")
    if arguments.save and arguments.template:
        made.error("--save makes a template: it cannot be used with -t")
    if arguments.fork and not arguments.last and arguments.resume is None:
        made.error("--fork needs -c or -r: which session?")
    return arguments


def _refuse_near_misses(made: argparse.ArgumentParser, words: list[str]) -> None:
    """A prompt that is probably a command of another tool is not sent, whatever flags stand beside it."""
    if "--" in words or not words:
        return
    known, unknown = made.parse_known_intermixed_args(words)
    prompt: list[str] = known.words
    # One word with a space in it is a prompt, and so is a word for a session that goes on: `-c continue`.
    if any(" " in word for word in prompt) or known.last or known.resume is not None:
        return
    advice = near_miss(prompt, has_other_flags=bool(unknown), is_first=words[:1] == prompt[:1])
    if not advice:
        return
    as_prompt = f"segue -- {' '.join(words)}" if words == prompt else "write -- before it"
    made.error(f'"{prompt[0]}" is not a command.\n       {advice}\n       As a prompt: {as_prompt}')


def has_prompt(arguments: argparse.Namespace) -> bool:
    return (
        bool(arguments.words or arguments.attachments or arguments.template)
        or arguments.prompt is not None  # an empty one, too: it never starts an interactive chat
        or arguments.input_format == "stream-json"
    )
