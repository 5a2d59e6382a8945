"""Suggestions for names that are spelt nearly like a known one."""

from __future__ import annotations

from difflib import get_close_matches
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_SYNONYMS: Final = (
    ("system", "instructions", "system_prompt", "prompt", "preamble"),
    ("history", "messages", "message_history", "chat_history", "conversation"),
    ("output", "output_type", "response_format", "response_model", "result_type", "schema", "text_format"),
    ("deps", "deps_type", "dependencies", "context", "context_type"),
    ("check", "output_validator", "validator", "output_guardrails"),
    ("session", "session_id", "thread_id", "thread", "conversation_id"),
    ("store", "checkpointer", "storage", "db"),
    ("tools", "functions"),
    ("max_turns", "max_steps", "max_iterations", "recursion_limit"),
    ("max_tokens", "max_output_tokens", "max_completion_tokens"),
)
"""Words of other libraries for the same thing."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


def suggestion(word: str, known: Iterable[str]) -> str:
    """The question whether the most similar known name is meant; "" if none is similar."""
    near = get_close_matches(word, sorted(known), n=1, cutoff=0.65)
    return f'Did you mean "{near[0]}"?' if near else ""


def unexpected_keyword(where: str, word: str, known: Iterable[str], **groups: Iterable[str]) -> TypeError:
    """The error of Python itself, with the name that may be meant. `groups`: names that belong into the value of one keyword."""
    names = tuple(known)
    hint = (
        _within(word, groups)
        or _meant(word, names)
        or _within(word, groups, cutoff=0.75)
        or f"Known are: {', '.join(names)}."
    )
    return TypeError(f"{where}() got an unexpected keyword argument {word!r}. {hint}")


def _meant(word: str, names: Iterable[str]) -> str:
    same = next((group for group in _SYNONYMS if word in group), ())
    meant = next((name for name in names if name in same), "")
    return f'Did you mean "{meant}"?' if meant else suggestion(word, names)


def _within(word: str, groups: Mapping[str, Iterable[str]], cutoff: float = 1.0) -> str:
    for keyword, held in groups.items():
        if near := get_close_matches(word, sorted(held), n=1, cutoff=cutoff):
            return f"Did you mean {keyword}={keyword.capitalize()}({near[0]}=…)?"
    return ""


def named_keywords(where: str, **groups: Iterable[str]) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Let a function name the keyword that is meant by an unknown one. `where`: what users call it. `groups`: as above."""

    def decorate(function: Callable[_P, _T]) -> Callable[_P, _T]:
        code: Any = function.__code__
        taken = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        known = [name for name in taken if name != "self"]

        @wraps(function)
        def checked(*args: Any, **given: Any) -> _T:
            for word in given:
                if word not in known:
                    raise unexpected_keyword(where, word, known, **groups)
            return function(*args, **given)

        return cast("Callable[_P, _T]", checked)

    return decorate
