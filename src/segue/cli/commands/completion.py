"""`segue completion`: completion scripts for shells, generated from the parsers."""

from __future__ import annotations

import argparse
import sys
from typing import Final, final

from msgspec import Struct

from segue.cli.command_table import COMMANDS, parser_of
from segue.cli.exit_codes import Exit

DESCRIPTION = """Prints a completion script. Use it in bash: source <(segue completion bash); in zsh: source <(segue completion zsh);
in fish: segue completion fish | source. To keep it, add the line to the startup file of your shell."""

SHELLS: Final = ("bash", "zsh", "fish")
MODEL: Final = "--model"
_MODELS: Final = "segue completion models 2>/dev/null"
"""Asked when Tab is pressed: which models there are depends on keys and settings."""


@final
class ContextOption(Struct, frozen=True):
    """One flag: its spellings, its help, and its possible values."""

    names: tuple[str, ...]
    help: str
    choices: tuple[str, ...] = ()
    takes_value: bool = False


@final
class CompletionContext(Struct, frozen=True):
    """What can follow some words: "" at the beginning, "models", "models pull"."""

    words: str
    options: tuple[ContextOption, ...]
    actions: tuple[tuple[str, str], ...]
    """Subcommands and choices, with their help."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=(*SHELLS, "models"), help="models: print the names that -m takes")


def run(arguments: argparse.Namespace) -> int:
    if arguments.shell == "models":
        sys.stdout.writelines(f"{name}\n" for name in _model_names())
        return Exit.OK
    write = {"bash": bash, "zsh": zsh, "fish": fish}[arguments.shell]
    sys.stdout.write(write(places()))
    return Exit.OK


def _model_names() -> list[str]:
    from segue.cli.model_choice import completions  # noqa: PLC0415 - the scripts need none of it
    from segue.config.layers import load_settings  # noqa: PLC0415
    from segue.config.resources import open_providers  # noqa: PLC0415

    config = load_settings().config
    return completions(config, open_providers(config))


def places() -> list[CompletionContext]:
    """All contexts in which words can be completed."""
    from segue.cli.arguments import parser  # noqa: PLC0415 - the prompt's own flags

    commands = tuple((name, purpose) for name, (_, purpose) in COMMANDS.items())
    found = [CompletionContext("", _options(parser()), commands)]
    for name in COMMANDS:
        found += _places(name, parser_of(name))
    return found


def _places(words: str, parser: argparse.ArgumentParser) -> list[CompletionContext]:
    inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    purposes = {choice.dest: choice.help or "" for action in inner for choice in action._choices_actions}
    chosen = [
        (str(choice), "")
        for action in parser._actions
        if not action.option_strings and not isinstance(action, argparse._SubParsersAction)
        for choice in action.choices or ()
    ]
    found = [CompletionContext(words, _options(parser), (*purposes.items(), *chosen))]
    for action in inner:
        for name, sub in action.choices.items():
            found += _places(f"{words} {name}", sub)
    return found


def _options(parser: argparse.ArgumentParser) -> tuple[ContextOption, ...]:
    return tuple(
        ContextOption(
            tuple(action.option_strings),
            (action.help or "").replace("%%", "%"),
            tuple(map(str, action.choices or ())),
            action.nargs != 0,
        )
        for action in parser._actions
        if action.option_strings
    )


def _table(known: list[CompletionContext]) -> tuple[list[str], list[str]]:
    """Lines of a shell's `case`: the words for each context, and the values of each flag that has choices."""
    offered, valued = [], []
    for place in known:
        names = [name for option in place.options for name in option.names]
        words = " ".join([*(word for word, _ in place.actions), *names])
        offered.append(f'    "{place.words}") offered="{words}" ;;')
        for option in place.options:
            if MODEL in option.names:
                flags = "|".join(f'"{place.words} {name}"' for name in option.names)
                valued.append(f'    {flags}) offered="$({_MODELS})" ;;')
            elif option.choices:
                flags = "|".join(f'"{place.words} {name}"' for name in option.names)
                valued.append(f'    {flags}) offered="{" ".join(option.choices)}" ;;')
    return offered, valued


_FIND_PLACE = """  place=""
  for word in $before; do
    case " $places " in
      *" ${place:+$place/}$word "*) place="${place:+$place/}$word" ;;
    esac
  done
  place="${place//\\// }"
"""
"""The words before the cursor that are commands; flags and their values are skipped."""


def _body(known: list[CompletionContext], before: str, previous: str) -> list[str]:
    offered, valued = _table(known)
    names = " ".join(place.words.replace(" ", "/") for place in known if place.words)
    return [
        f'  local place word offered="" places="{names}"',
        f"  local before={before}",
        _FIND_PLACE.rstrip("\n"),
        f'  case "$place {previous}" in',
        *valued,
        "  esac",
        '  if [ -z "$offered" ]; then case "$place" in',
        *offered,
        "  esac; fi",
    ]


def bash(known: list[CompletionContext]) -> str:
    lines = [
        "# segue completion for bash",
        "_segue() {",
        '  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"',
        *_body(known, '"${COMP_WORDS[*]:1:COMP_CWORD-1}"', "$previous"),
        '  COMPREPLY=($(compgen -W "$offered" -- "$current"))',
        "}",
        "complete -o bashdefault -o default -F _segue segue",
    ]
    return "\n".join(lines) + "\n"


def zsh(known: list[CompletionContext]) -> str:
    lines = [
        "#compdef segue",
        "_segue() {",
        "  emulate -L zsh -o sh_word_split",
        '  local previous="${words[CURRENT-1]}"',
        '  local -a typed=("${(@)words[2,CURRENT-1]}")',
        *_body(known, '"${typed[*]}"', "$previous"),
        "  compadd -- ${=offered} || _files",
        "}",
        "compdef _segue segue",
    ]
    return "\n".join(lines) + "\n"


def fish(known: list[CompletionContext]) -> str:
    lines = ["# segue completion for fish"]
    for place in known:
        first, _, second = place.words.partition(" ")
        here = f"__fish_seen_subcommand_from {first}" if first else "__fish_use_subcommand"
        if second:
            here += f"; and __fish_seen_subcommand_from {second}"
        for word, purpose in place.actions:
            lines.append(f"complete -c segue -n {_quoted(here)} -a {word} -d {_quoted(purpose)}")
        for option in place.options:
            names = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names)
            value = (
                f" -x -a {_quoted(' '.join(option.choices))}"
                if option.choices
                else f" -x -a '({_MODELS})'"
                if MODEL in option.names
                else " -r"
                if option.takes_value
                else ""
            )
            lines.append(f"complete -c segue -n {_quoted(here)} {names} -d {_quoted(option.help)}{value}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
