"""Tools from ordinary functions.

A function's annotations become its schema and its docstring the description that the model reads. Arguments arrive converted to the
annotated types; a parameter annotated `Context` or `Context[Deps]` is given by the runtime and never seen by the model.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar, final, overload

import msgspec
from msgspec import Struct

from segue.conversation.json_safe import is_json_safe
from segue.conversation.tools import ToolSpec
from segue.errors import UsageError
from segue.system.worker_threads import in_thread
from segue.text.suggestions import unexpected_keyword
from segue.tools.definition import Context, Effect, Runner, Tool
from segue.tools.value_types import (
    InexpressibleError,
    Misfit,
    ValueType,
    field_in,
    is_field,
    joined,
    value_type,
    without_names,
)

_F = TypeVar("_F", bound=Callable[..., Any])
_SETTINGS = "__segue_tool__"
_REQUIRED = inspect.Parameter.empty
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


@final
class _Parameter(Struct, frozen=True):
    """One that a model gives."""

    name: str
    key: str
    """What the model calls it."""
    value: ValueType
    default: Any
    made: Callable[[], Any] | None = None
    """Makes the default, where the function itself has none."""


@final
class _Taken(Struct, frozen=True):
    """What a function takes."""

    offered: tuple[_Parameter, ...]
    injected: tuple[str, ...]
    """Parameters that the runtime gives."""
    deps: Any
    """The type of the dependencies that it wants; None if it wants none."""


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
    """Mark a function as a tool, with what its signature does not have. The function itself stays as it is.

    Any function with annotations can be given to a chat without this.

    Args:
        function: Where it is written without brackets: `@tool`.
        name: Instead of the name of the function.
        description: Instead of its docstring.
        effect: What it does to the world, by which approval is decided: `read`, `edit`, `run`, `fetch` or `other`.
        timeout: Seconds after which a call is given up; None for no limit.
        writes: Returns the paths that a call would write: calls that share one run one after another.
        repeatable: Whether a call that began and did not end, for its machine was lost, may run again.
    """
    for word in settings.keys() - set(_Settings.__struct_fields__):
        raise unexpected_keyword("tool", word, _Settings.__struct_fields__)
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
    described = source
    while isinstance(described, partial):
        described = described.func
    name = settings.name or getattr(described, "__name__", type(described).__name__)
    called = described if inspect.isroutine(described) else getattr(described, "__call__", described)  # noqa: B004
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise UsageError(
            f'"{name}" is a generator, and a call has one result.',
            code="bad_tool",
            path=name,
            hint="Return a value, for example a list. context.progress(…) reports what happens in between.",
        )
    if not _NAME.fullmatch(name):
        raise UsageError(
            f'"{name}" cannot be the name of a tool.',
            code="bad_tool_name",
            hint="Use up to 64 letters, digits, _ and -: @tool(name=…).",
        )
    summary, explained = _explain(described)
    taken = _parameters(source, name)
    offered = {parameter.key: parameter for parameter in taken.offered}
    spec = ToolSpec(name, settings.description or summary, _schema(offered, explained))
    return Tool(
        spec=spec,
        run=_runner(source, offered, taken.injected),
        check=partial(_problems, offered),
        deps=taken.deps,
        effect=settings.effect,
        timeout=settings.timeout,
        writes=settings.writes,
        repeatable=settings.repeatable,
    )


def tools_in(sources: Iterable[Tool | Callable[..., Any]]) -> tuple[Tool, ...]:
    """The tools that are given to a chat. Raises UsageError for what is none."""
    given: object = sources
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise UsageError(
            f"Expected a list of tools, not {given!r:.100}.",
            code="not_a_tool",
            path="tools",
            hint="Write tools=[…], also for a single one.",
        )
    return tuple(as_tool(source) for source in sources)


def _explain(function: Any) -> tuple[str, dict[str, str]]:
    """What a model reads of a docstring, and of each parameter in it; in Google, NumPy, Sphinx or Epydoc style; empty where there is none."""
    text = inspect.getdoc(function)
    if not text and not inspect.isroutine(function) and not inspect.isclass(function):
        text = inspect.getdoc(type(function).__call__)
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


def _parameters(function: Callable[..., Any], name: str) -> _Taken:
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
    offered: list[_Parameter] = []
    injected: list[str] = []
    deps: Any = None
    for parameter in signature.parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise UsageError(
                f"The parameter {parameter.name} cannot be given by name, and models give all arguments by name.",
                code="bad_tool_parameter",
                path=f"{name}.{parameter.name}",
                hint="Write it as an ordinary parameter, without *, ** and /.",
            )
        hint = hints.get(parameter.name, Any)
        context = _context_in(hint)
        if context is None:
            offered.append(_parameter(parameter, hint, name))
        else:
            injected.append(parameter.name)
            deps = next((wanted for wanted in typing.get_args(context) if wanted is not Any), deps)
    return _Taken(tuple(offered), tuple(injected), None if deps is type(None) else deps)


def _context_in(hint: Any) -> Any:
    """`Context`, `Context[Deps]`, or one of them in an optional; None if it is something else."""
    members = (hint, *typing.get_args(hint)) if typing.get_origin(hint) is not Context else (hint,)
    return next((one for one in members if one is Context or typing.get_origin(one) is Context), None)


def _parameter(parameter: inspect.Parameter, hint: Any, tool_name: str) -> _Parameter:
    path, default = f"{tool_name}.{parameter.name}", parameter.default
    if is_field(default):  # as pydantic's own functions are written: city: str = Field(description="…")
        hint, default = typing.Annotated[hint, default], parameter.empty
    try:
        field = field_in(hint)
        value = value_type(without_names(hint))
        key, made = (parameter.name, None) if field is None else _of_field(field, parameter.name)
    except InexpressibleError as error:
        raise UsageError(
            f"The annotation of {parameter.name} has no JSON Schema: {error}",
            code="bad_tool_parameter",
            path=path,
            hint="Use str, int, float, bool, Literal, enums, lists, dicts, dataclasses, TypedDicts, Structs or pydantic "
            "models, with msgspec.Meta, annotated_types or pydantic's Field beside them.",
        ) from error
    if default is not parameter.empty:
        return _Parameter(parameter.name, key, value, default)
    return _Parameter(parameter.name, key, value, _REQUIRED if made is None else made(), made)


def _of_field(field: Any, name: str) -> tuple[str, Callable[[], Any] | None]:
    """What a model calls the parameter, and what makes its default; None if it has none."""
    if field.validation_alias is not None and not isinstance(field.validation_alias, str):
        raise InexpressibleError("a parameter has one name: write alias as a text")
    if field.default_factory_takes_validated_data:
        raise InexpressibleError("its default cannot depend on other parameters")
    key = field.validation_alias or name
    return key, None if field.is_required() else partial(field.get_default, call_default_factory=True)


def _schema(parameters: dict[str, _Parameter], explained: dict[str, str]) -> dict[str, Any]:
    properties, definitions = joined({key: parameter.value for key, parameter in parameters.items()})
    for key, parameter in parameters.items():
        described = properties[key]
        described.pop("default", None)
        if parameter.default is not _REQUIRED and parameter.default is not None:
            described |= _default(parameter.default)
        if parameter.name in explained:
            described.setdefault("description", explained[parameter.name])
    required = [key for key, parameter in parameters.items() if parameter.default is _REQUIRED]
    whole = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return whole | ({"$defs": definitions} if definitions else {})


def _default(value: Any) -> dict[str, Any]:
    dump = getattr(value, "model_dump", None)
    try:
        builtin = dump(mode="json") if callable(dump) else msgspec.to_builtins(value)
    except (TypeError, ValueError, RecursionError):
        return {}
    return {"default": builtin} if is_json_safe(builtin) else {}


def _problems(parameters: dict[str, _Parameter], given: dict[str, Any]) -> tuple[str, ...]:
    """Why arguments that fit the schema do not have the types: a rule of a model, a day that is in no calendar."""
    problems: list[str] = []
    for key, value in given.items():
        try:
            parameters[key].value.convert(value)
        except Misfit as misfit:
            problems += [
                f"{key}.{place}: {why}" if place else f"{key}: {why}" for place, why in misfit.problems
            ]
        except Exception as error:  # a validator is anybody's code
            problems.append(f"{key}: {type(error).__name__}: {error}")
    return tuple(problems)


def _runner(
    function: Callable[..., Any], parameters: dict[str, _Parameter], injected: tuple[str, ...]
) -> Runner:
    called = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)
    made = {one.name: one.made for one in parameters.values() if one.made is not None}

    async def run(given: dict[str, Any], context: Context) -> Any:
        known = {parameters[key].name: parameters[key].value.convert(value) for key, value in given.items()}
        known |= {name: make() for name, make in made.items() if name not in known}
        known |= dict.fromkeys(injected, context)
        if is_async:
            return await function(**known)
        value = await in_thread(partial(function, **known))
        return await value if inspect.isawaitable(value) else value

    return run
