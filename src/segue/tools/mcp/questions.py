"""What a server asks of its client: a question to the user, a model's answer, folders.

A question is answered by whoever can ask the user, else declined. A server gets no model and no folder: both are
refused as the protocol wants it, so that the server can go on without.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, TypeAlias, final

from msgspec import Struct

from segue.text.redaction import redact_known

FieldKind: TypeAlias = Literal["text", "number", "integer", "boolean", "choice"]
FieldValue: TypeAlias = str | int | float | bool
MOST_FIELDS: Final = 20
MOST_TEXT: Final = 4_000
"""Characters of a message or a description."""


@final
class QuestionField(Struct, frozen=True, kw_only=True):
    """One value that is asked for."""

    name: str
    title: str
    kind: FieldKind = "text"
    choices: tuple[str, ...] = ()
    required: bool = False

    def read(self, text: str) -> FieldValue | None:
        """The value that somebody typed; None if it does not fit."""
        text = text.strip()
        match self.kind:
            case "boolean":
                return {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}.get(
                    text.lower()
                )
            case "choice":
                numbered = {str(number): choice for number, choice in enumerate(self.choices, 1)}
                return text if text in self.choices else numbered.get(text)
            case "integer" | "number":
                try:
                    return int(text) if self.kind == "integer" else float(text)
                except ValueError:
                    return None
            case "text":
                return text or None


@final
class ServerQuestion(Struct, frozen=True, kw_only=True):
    """A question to the user. All of its texts are the server's."""

    server: str
    message: str
    fields: tuple[QuestionField, ...] = ()
    url: str = ""
    """A page to open instead of fields; nobody opens it but the user."""


AnswerQuestion: TypeAlias = Callable[[ServerQuestion], Awaitable["dict[str, FieldValue] | None"]]
"""Asks the user: the values by name, or None if they decline."""


def read_question(server: str, params: Any) -> ServerQuestion | None:
    """The question in a request; None if it cannot be shown as a form."""
    message = redact_known(str(params.message)[:MOST_TEXT])
    if params.mode == "url":
        return ServerQuestion(server=server, message=message, url=str(params.url)[:MOST_TEXT])
    schema = params.requested_schema
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or len(properties) > MOST_FIELDS:
        return None
    required = schema.get("required")
    names = required if isinstance(required, list) else []
    fields = [_field(name, shape, required=name in names) for name, shape in properties.items()]
    known = [field for field in fields if field is not None]
    if len(known) != len(fields):
        return None
    return ServerQuestion(server=server, message=message, fields=tuple(known))


def _field(name: str, shape: Any, *, required: bool) -> QuestionField | None:
    if not isinstance(shape, Mapping):
        return None
    texts = [str(shape[key]) for key in ("title", "description") if isinstance(shape.get(key), str)]
    title = redact_known(": ".join(texts)[:MOST_TEXT] or name)
    choices = shape.get("enum")
    if isinstance(choices, list) and choices and all(isinstance(choice, str) for choice in choices):
        return QuestionField(name=name, title=title, kind="choice", choices=tuple(choices), required=required)
    kinds: dict[Any, FieldKind] = {
        "string": "text",
        "number": "number",
        "integer": "integer",
        "boolean": "boolean",
    }
    kind = shape.get("type")
    if not isinstance(kind, str) or kind not in kinds or choices is not None:
        return None
    return QuestionField(name=name, title=title, kind=kinds[kind], required=required)


async def answer_server(server: str, params: Any, ask: AnswerQuestion | None) -> Any:
    """The answer to a question, as the SDK wants it. Whoever asks may fail: then nobody has agreed."""
    from mcp_types import ElicitResult  # noqa: PLC0415 - heavy, and loaded by now

    question = read_question(server, params) if ask is not None else None
    if ask is None or question is None:
        return ElicitResult(action="decline")
    try:
        values = await ask(question)
    except Exception:
        return ElicitResult(action="cancel")
    if values is None:
        return ElicitResult(action="decline")
    return ElicitResult(action="accept", content=None if question.url else dict(values))
