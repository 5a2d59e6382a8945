"""A role: what an agent brings to a conversation. A chat has one; handing over gives it another, and keeps the conversation."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias, final

from msgspec import Struct

from segue.chat.output_type import OutputMismatch, OutputType
from segue.conversation.json_safe import encodable
from segue.conversation.tools import ToolSpec
from segue.errors import UsageError
from segue.routing.router import Model
from segue.system.worker_threads import in_thread
from segue.tools.definition import AskAgain, Context, Tool

SystemPrompt: TypeAlias = str | Callable[[Context[Any]], str | Awaitable[str]]
"""A system prompt, or what makes one at the beginning of each turn."""
Check: TypeAlias = Callable[[Any, Context[Any]], Any]
"""Takes an answer and the context, returns the answer that counts, or raises AskAgain."""

_NOTHING: Final[dict[str, Any]] = {"type": "object", "properties": {}, "additionalProperties": False}


@final
class Role(Struct, frozen=True, kw_only=True):
    """Who answers for the chat, and with what."""

    name: str = ""
    description: str = ""
    """For the models that may hand over to it."""
    model: Model = ""
    """Empty: whoever answers already."""
    system: SystemPrompt = ""
    tools: tuple[Tool | Callable[..., Any], ...] = ()
    output: OutputType | None = None
    check: Check | None = None
    successors: tuple[str, ...] = ()
    """The roles that it may hand over to."""


def checked_function(given: Any, path: str, takes: tuple[str, ...]) -> Any:
    """A text, made encodable, or a function that can be called with so many values. Raises UsageError for another one."""
    if isinstance(given, str):
        return encodable(given)
    words = f"a function of {' and '.join(takes)}"
    if not callable(given):
        raise UsageError(
            f"Expected {words}, not {given!r:.100}.", code="bad_function", path=path, hint=f"Give {words}."
        )
    try:
        inspect.signature(given).bind(*takes)
    except TypeError as error:
        raise UsageError(
            f"{getattr(given, '__name__', given)} cannot be called so: {error}.",
            code="bad_function",
            path=path,
            hint=f"Write {words}.",
        ) from error
    except ValueError:
        pass  # a function that does not tell what it takes
    return given


def handover_tool(role: Role, hand_over: Callable[[Role], str]) -> Tool:
    """Lets the model give the conversation to another role. It has no effect but in the chat."""

    async def run(_arguments: dict[str, Any], _context: Context[Any]) -> str:
        return hand_over(role)

    about = f" {role.description}" if role.description else ""
    spec = ToolSpec(
        f"hand_over_to_{role.name}", f"Hand this conversation over to {role.name}.{about}", _NOTHING
    )
    return Tool(spec=spec, run=run, effect="read")


async def instructions_of(system: SystemPrompt, context: Context[Any]) -> str:
    """The system prompt for the turn that begins."""
    if isinstance(system, str):
        return system
    text = await _called(system, context)
    if not isinstance(text, str):
        raise UsageError(
            f"The instructions returned {text!r:.100}.",
            code="bad_instructions",
            path="instructions",
            hint="Return a text.",
        )
    return encodable(text)


async def checked_output(
    output: OutputType | None, check: Check | None, text: str, context: Context[Any]
) -> Any:
    """The value of an answer; its text where no type was asked for, None where it is not checked either. Raises OutputMismatch."""
    value = text if output is None else output.read(text)
    if check is None:
        return None if output is None else value
    try:
        accepted = await _called(check, value, context)
    except AskAgain as again:
        raise OutputMismatch(f"was not accepted: {again.reason.rstrip('.')}") from again
    if (accepted is None and value is not None) or (output is None and not isinstance(accepted, str)):
        raise UsageError(
            f"The check of the answer returned {'None' if accepted is None else f'a {type(accepted).__name__}, not a text'}.",
            code="bad_check",
            path="check",
            hint="Return the answer, or raise AskAgain with the reason why it is not accepted.",
        )
    return accepted


async def _called(function: Callable[..., Any], *given: Any) -> Any:
    """Whatever function it is; one that is not asynchronous runs beside the loop, as tools do."""
    if inspect.iscoroutinefunction(function):
        return await function(*given)
    value = await in_thread(partial(function, *given))
    return await value if inspect.isawaitable(value) else value


def require_deps(wanted: Any, deps: Any, who: str) -> None:
    """Raises where somebody wants dependencies of another type than are given."""
    if wanted is None or _is_instance(deps, wanted):
        return
    given = "none are given" if deps is None else f"those given are of type {type(deps).__name__}"
    raise UsageError(
        f"{who} wants dependencies of type {getattr(wanted, '__name__', wanted)}, and {given}.",
        code="bad_deps",
        path="deps",
        hint="Give them: deps=….",
    )


def _is_instance(value: Any, kind: Any) -> bool:
    try:
        return isinstance(value, typing.get_origin(kind) or kind)
    except TypeError:  # a protocol, a TypeVar: only type checkers know
        return True


def is_subtype(kind: Any, wanted: Any) -> bool:
    """Whether dependencies of one type serve somebody who wants another, as far as that can be known."""
    if wanted is None or wanted is Any or kind is Any:
        return True
    try:
        return issubclass(kind, typing.get_origin(wanted) or wanted)
    except TypeError:
        return True


def reachable(roles: Mapping[str, Role], role: Role) -> tuple[Role, ...]:
    return tuple(roles[name] for name in role.successors)
