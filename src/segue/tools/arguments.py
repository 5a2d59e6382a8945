"""Whether the arguments of a call fit the schema of its tool, worded so that the model can correct them."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from segue.conversation.json_safe import MAX_DEPTH, encodable, ensure_json_safe

if TYPE_CHECKING:
    from collections.abc import Callable

    from jsonschema_rs import ValidationError, Validator

    from segue.conversation.blocks import ToolCall
    from segue.conversation.tools import ToolSpec

MAX_REPORTED: Final = 10
MAX_KEPT: Final = 1024
_MAX_WIDTH: Final = 300

_validators: dict[int, tuple[dict[str, Any], Validator | None]] = {}
"""By the identity of the schema, which is held here so that its identity stays its own."""


def problem_with(
    call: ToolCall, spec: ToolSpec, check: Callable[[dict[str, Any]], tuple[str, ...]] | None = None
) -> str:
    """What is wrong with the arguments, for the model to read; the empty text when nothing is.

    `check`: of the tool, for arguments that fit the schema.
    A schema that is itself broken, or that points elsewhere, checks nothing: nothing is ever fetched, and the tool
    still sees the arguments.
    """
    arguments = arguments_in(call)
    if arguments is None:
        return _unreadable(call, spec)
    validator = _validator(spec.parameters) if spec.parameters else None
    problems: list[str] = []
    if validator is not None:
        errors = islice(validator.iter_errors(ensure_json_safe(arguments)), MAX_REPORTED + 1)
        problems = [f"- {_short(_place(error))}: {_short(error.message)}" for error in errors]
    if not problems and check is not None:
        problems = [f"- {_short(problem)}" for problem in check(arguments)]
    if not problems:
        return ""
    reported = problems[:MAX_REPORTED]
    lines = "\n".join([*reported, "- and more"] if len(problems) > MAX_REPORTED else reported)
    return f'The arguments of "{spec.name}" do not fit its schema:\n{lines}\nCorrect them and call it again.'


def _place(error: ValidationError) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
    return "".join(steps).lstrip(".") or "arguments"


def arguments_in(call: ToolCall) -> dict[str, Any] | None:
    """The arguments as an object; None when they are not one. No arguments at all are an empty object."""
    if type(call.arguments) is dict:
        return call.arguments
    if call.arguments is None and not call.raw.strip():
        return {}
    return None


def _unreadable(call: ToolCall, spec: ToolSpec) -> str:
    again = f'Call "{spec.name}" again with one JSON object as its arguments.'
    if call.arguments is None:
        try:
            msgspec.json.decode(call.raw)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            return f"The arguments are not JSON ({error}). They were: {_short(call.raw)}\n{again}"
        if call.raw.lstrip().startswith("{"):
            return f"The arguments nest too deeply: more than {MAX_DEPTH} levels. {again}"
    kinds = {str: "a text", list: "a list", bool: "true or false", int: "a number", float: "a number"}
    return f"The arguments are {kinds.get(type(call.arguments), 'null')}, not an object. {again}"


def _validator(schema: dict[str, Any]) -> Validator | None:
    known = _validators.get(id(schema))
    if known is None:
        if len(_validators) >= MAX_KEPT:
            _validators.clear()
        import jsonschema_rs  # noqa: PLC0415 - only who runs tools needs it

        try:
            validator = jsonschema_rs.validator_for(schema, retriever=_fetch_nothing)
        except (ValueError, RecursionError):
            validator = None
        known = _validators[id(schema)] = schema, validator
    return known[1]


def _fetch_nothing(address: str) -> Any:
    raise ValueError(f"{address} is not fetched")


def _short(text: str) -> str:
    text = encodable(text)
    return text if len(text) <= _MAX_WIDTH else f"{text[:_MAX_WIDTH]}…"
