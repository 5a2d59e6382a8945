"""Tools from ordinary functions.

A function's annotations become its schema and its docstring the description that the model reads. Arguments arrive converted to the
annotated types; a parameter annotated `Context` is given by the runtime and never seen by the model.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, final, overload

import msgspec
from msgspec import Struct

from segue.conversation.json_safe import is_json_safe
from segue.conversation.tools import ToolSpec
from segue.errors import UsageError
from segue.tools.definition import Context, Effect, Runner, Tool
from segue.worker_threads import in_thread

_F = TypeVar("_F", bound=Callable[..., Any])
_SETTINGS = "__segue_tool__"
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What every provider accepts as the name of a tool."""


@final
class _Settings(Struct, frozen=True, kw_only=True):
    name: str = ""
    description: str = ""
    effect: Effect = "other"
    timeout: float | None = 120.0
    writes: Callable[[dict[str, Any]], tuple[str, ...]] | None = None
    repeatable: bool | None = None


@overload
def tool(function: _F, /) -> _F: ...
@overload
def tool(
    *,
    name: str = "",
    description: str = "",
    effect: Effect = "other",
    timeout: float | None = 120.0,
    writes: Callable[[dict[str, Any]], tuple[str, ...]] | None = None,
    repeatable: bool | None = None,
) -> Callable[[_F], _F]: ...
def tool(function: Any = None, /, **settings: Any) -> Any:
    """Mark a function as a tool, with what its signature does not have. The function itself stays as it is."""
    made = _Settings(**settings)

    def mark(marked: _F) -> _F:
        setattr(marked, _SETTINGS, made)
        return marked

    return mark if function is None else mark(function)


def as_tool(source: Tool | Callable[..., Any]) -> Tool:
    """The tool that something is: a Tool, a decorated function, or any function with annotations."""
    if type(source) is Tool:
        return source
    if not callable(source):
        raise UsageError(
            f"{source!r} is no tool.",
            code="not_a_tool",
            hint="Give a function, or what @tool was put before.",
        )
    settings = getattr(source, _SETTINGS, None) or _Settings()
    name = settings.name or getattr(source, "__name__", type(source).__name__)
    if not _NAME.fullmatch(name):
        raise UsageError(
            f'"{name}" cannot be the name of a tool.',
            code="bad_tool_name",
            hint="Use up to 64 letters, digits, _ and -: @tool(name=…).",
        )
    summary, described = _explain(source)
    parameters = _parameters(source, name)
    injected = tuple(parameter.name for parameter in parameters if parameter.annotation is Context)
    offered = [parameter for parameter in parameters if parameter.annotation is not Context]
    arguments = _arguments_type(name, offered)
    spec = ToolSpec(name, settings.description or summary, _schema(arguments, offered, described))
    return Tool(
        spec=spec,
        run=_runner(source, arguments, injected),
        effect=settings.effect,
        timeout=settings.timeout,
        writes=settings.writes,
        repeatable=settings.repeatable,
    )


def _explain(function: Any) -> tuple[str, dict[str, str]]:
    """What a model reads of a docstring, and of each parameter in it; in Google, NumPy, Sphinx or Epydoc style; empty where there is none."""
    text = inspect.getdoc(function)
    if not text:
        return "", {}
    import docstring_parser  # noqa: PLC0415 - only who makes a tool of a function needs it

    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        # A docstring that breaks its own style is still the best description there is.
        return text, {}
    texts = [parsed.short_description, parsed.long_description]
    if parsed.returns and parsed.returns.description:
        texts.append(f"Returns: {parsed.returns.description}")
    described = {
        parameter.arg_name: " ".join(parameter.description.split())
        for parameter in parsed.params
        if parameter.description
    }
    return "\n\n".join(part.strip() for part in texts if part), described


def _parameters(function: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    """The parameters with their annotations resolved."""
    plain_function = function
    if not inspect.isroutine(function) and not inspect.isclass(function):
        plain_function = getattr(function, "func", None) or type(function).__call__
    try:
        signature = inspect.signature(function)
        hints = typing.get_type_hints(plain_function, include_extras=True)
    except (NameError, TypeError, ValueError) as error:
        raise UsageError(
            f"The annotations of {name} cannot be read: {error}.",
            code="bad_tool",
            path=name,
            hint="Every annotation must be importable when the tool is made, not only while types are checked.",
        ) from error
    parameters = []
    for parameter in signature.parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise UsageError(
                f"The parameter {parameter.name} cannot be given by name, and models give all arguments by name.",
                code="bad_tool_parameter",
                path=f"{name}.{parameter.name}",
                hint="Write it as an ordinary parameter, without *, ** and /.",
            )
        hint = hints.get(parameter.name, Any)
        if hint != Any and Context in typing.get_args(hint):
            hint = Context
        parameters.append(parameter.replace(annotation=hint))
    return parameters


def _arguments_type(name: str, parameters: list[inspect.Parameter]) -> type[Struct]:
    fields: list[Any] = []
    for parameter in parameters:
        try:
            msgspec.json.schema(parameter.annotation)
            fields.append(
                (parameter.name, parameter.annotation)
                if parameter.default is parameter.empty
                # The function has its own default: this one only makes the argument optional.
                else (parameter.name, parameter.annotation, None)
            )
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(
                f"The annotation of {parameter.name} has no JSON Schema: {error}",
                code="bad_tool_parameter",
                path=f"{name}.{parameter.name}",
                hint="Use str, int, float, bool, Literal, enums, lists, dicts, dataclasses, TypedDicts or Structs.",
            ) from error
    return msgspec.defstruct(f"{name}_arguments", fields, kw_only=True, forbid_unknown_fields=True)


def _schema(
    arguments: type[Struct], parameters: list[inspect.Parameter], explained: dict[str, str]
) -> dict[str, Any]:
    (root,), components = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    schema: dict[str, Any] = components.pop(root["$ref"].removeprefix("#/$defs/"))
    properties = schema["properties"]
    for parameter in parameters:
        described = properties[parameter.name]
        described.pop("default", None)
        if parameter.default is not parameter.empty and parameter.default is not None:
            described |= _default(parameter.default)
        if parameter.name in explained:
            described.setdefault("description", explained[parameter.name])
    whole = {"type": "object", "properties": properties, "required": schema["required"]}
    return whole | {"additionalProperties": False} | ({"$defs": components} if components else {})


def _default(value: Any) -> dict[str, Any]:
    try:
        builtin = msgspec.to_builtins(value)
    except (TypeError, ValueError, RecursionError):
        return {}
    return {"default": builtin} if is_json_safe(builtin) else {}


def _runner(function: Callable[..., Any], arguments: type[Struct], injected: tuple[str, ...]) -> Runner:
    called = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)

    async def run(given: dict[str, Any], context: Context) -> Any:
        # The schema has been checked; it counts 5.0 as a whole number, and some models write all numbers like that.
        converted = msgspec.convert(given, arguments, strict=False)
        known = {name: getattr(converted, name) for name in given} | dict.fromkeys(injected, context)
        if is_async:
            return await function(**known)
        value = await in_thread(partial(function, **known))
        return await value if inspect.isawaitable(value) else value

    return run
