"""`segue completion`: completion scripts for shells, generated from the parsers."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from segue.cli.command_table import COMMANDS, parser_of
from segue.cli.exit_codes import Exit

if TYPE_CHECKING:
    from collections.abc import Mapping

DESCRIPTION = """Prints a completion script. Use it in bash: source <(segue completion bash); in zsh: source <(segue completion zsh);
in fish: segue completion fish | source. To keep it, add the line to the startup file of your shell."""

SHELLS: Final = ("bash", "zsh", "fish")
MODEL: Final = "--model"
_MODELS: Final = "segue completion models 2>/dev/null"
"""Asked when Tab is pressed: which models there are depends on keys and settings."""


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


def places() -> dict[str, argparse.ArgumentParser]:
    """Words before the cursor ("" at the beginning, "models", "models pull") → the parser of what follows them."""
    from segue.cli.arguments import parser  # noqa: PLC0415 - the prompt's own flags

    found = {"": parser()}
    for name in COMMANDS:
        found |= _places(name, parser_of(name))
    return found


def _places(words: str, parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found = {words: parser}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, sub in action.choices.items():
                found |= _places(f"{words} {name}", sub)
    return found


def _actions(words: str, parser: argparse.ArgumentParser) -> dict[str, str]:
    """Commands and choices that can follow the words, with their help."""
    if not words:
        return COMMANDS
    found: dict[str, str] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= {choice.dest: choice.help or "" for choice in action._choices_actions}
        elif not action.option_strings:
            found |= {str(choice): "" for choice in action.choices or ()}
    return found


def _flags(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if action.option_strings]


def _choices(flag: argparse.Action) -> str:
    return " ".join(map(str, flag.choices or ()))


def _table(known: Mapping[str, argparse.ArgumentParser]) -> tuple[list[str], list[str]]:
    """Lines of a shell's `case`: the words for each context, and the values of each flag that has choices."""
    offered, valued = [], []
    for words, parser in known.items():
        names = [name for flag in _flags(parser) for name in flag.option_strings]
        offered.append(f'    "{words}") offered="{" ".join([*_actions(words, parser), *names])}" ;;')
        for flag in _flags(parser):
            if values := f"$({_MODELS})" if MODEL in flag.option_strings else _choices(flag):
                flags = "|".join(f'"{words} {name}"' for name in flag.option_strings)
                valued.append(f'    {flags}) offered="{values}" ;;')
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


def _body(known: Mapping[str, argparse.ArgumentParser], before: str, previous: str) -> list[str]:
    offered, valued = _table(known)
    names = " ".join(words.replace(" ", "/") for words in known if words)
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


def bash(known: Mapping[str, argparse.ArgumentParser]) -> str:
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


def zsh(known: Mapping[str, argparse.ArgumentParser]) -> str:
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


def fish(known: Mapping[str, argparse.ArgumentParser]) -> str:
    lines = ["# segue completion for fish"]
    for words, parser in known.items():
        first, _, second = words.partition(" ")
        here = f"__fish_seen_subcommand_from {first}" if first else "__fish_use_subcommand"
        if second:
            here += f"; and __fish_seen_subcommand_from {second}"
        for word, purpose in _actions(words, parser).items():
            lines.append(f"complete -c segue -n {_quoted(here)} -a {word} -d {_quoted(purpose)}")
        for flag in _flags(parser):
            names = " ".join(
                f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in flag.option_strings
            )
            value = "" if flag.nargs == 0 else " -r"
            if flag.choices:
                value = f" -x -a {_quoted(_choices(flag))}"
            elif MODEL in flag.option_strings:
                value = f" -x -a '({_MODELS})'"
            purpose = (flag.help or "").replace("%%", "%")
            lines.append(f"complete -c segue -n {_quoted(here)} {names} -d {_quoted(purpose)}{value}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
