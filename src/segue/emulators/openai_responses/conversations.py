"""`/v1/conversations`: items that the server holds, to which every response of a conversation adds (CNV-01, CNV-02)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.emulators.admission import permitted
from segue.emulators.http import BadJsonError, Request, Response, Route, json_response
from segue.emulators.openai_responses import errors
from segue.emulators.rules import Complaints, Context, Refusal, RefusedError, rule

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

    from segue.emulators.emulator import Emulator

HELD = "conversations"
"""Of the memory: the id of each conversation → its record and its items."""
MOST_ITEMS = 20


def named_in(body: Mapping[str, Any]) -> str | None:
    """The conversation that a request belongs to; None if it names none."""
    named = body.get("conversation")
    named = named.get("id") if isinstance(named, dict) else named
    return named if isinstance(named, str) else None


def held_items(body: Mapping[str, Any], memory: Mapping[str, Any]) -> list[Any]:
    record = memory.get(HELD, {}).get(named_in(body))
    return list(record["items"]) if record else []


@rule("CNV-04", "H")
def unknown_conversation(body: Mapping[str, Any], context: Context) -> Complaints:
    name = named_in(body)
    if name is not None and HELD in context.memory and name not in context.memory[HELD]:
        yield _not_found(name)


def _not_found(name: str) -> Refusal:
    return Refusal("CNV-04", f"Conversation with id '{name}' not found.", status=404, param="conversation")


@rule("CNV-02", "H")
def append(
    body: Mapping[str, Any], items: list[Any], output: list[Any], memory: MutableMapping[str, Any]
) -> None:
    """Add a complete turn to its conversation. `items`: of the request alone."""
    record = memory.get(HELD, {}).get(named_in(body))
    if record is not None:
        record["items"] += [*items, *output]


@rule("CNV-01", "H")
def create(request: Request, emulator: Emulator) -> Response:
    context = permitted(request, emulator, "openai", errors)
    body = _body(request, context)
    items = body.get("items") or []
    if not isinstance(items, list) or len(items) > MOST_ITEMS:
        text = f"Invalid 'items': array too long. Expected an array with maximum length {MOST_ITEMS}."
        raise RefusedError(Refusal("CNV-01", text, param="items"), context)
    name = f"conv_{context.reply_id}"
    record = {
        "id": name,
        "object": "conversation",
        "created_at": context.now,
        "metadata": body.get("metadata") or {},
    }
    emulator.memory("openai").setdefault(HELD, {})[name] = {"record": record, "items": list(items)}
    return json_response(record)


def _body(request: Request, context: Context) -> Mapping[str, Any]:
    try:
        body = request.json() if request.body else {}
    except BadJsonError as error:
        raise RefusedError(errors.not_json(request.body, str(error)), context) from error
    return body if isinstance(body, dict) else {}


def _found(request: Request, emulator: Emulator) -> dict[str, Any]:
    context = permitted(request, emulator, "openai", errors)
    held: dict[str, dict[str, Any]] = emulator.memory("openai").get(HELD, {})
    if (name := request.params["id"]) not in held:
        raise RefusedError(_not_found(name), context)
    return held[name]


def read(request: Request, emulator: Emulator) -> Response:
    return json_response(_found(request, emulator)["record"])


def delete(request: Request, emulator: Emulator) -> Response:
    name = _found(request, emulator)["record"]["id"]
    del emulator.memory("openai")[HELD][name]
    return json_response({"id": name, "object": "conversation.deleted", "deleted": True})


def read_items(request: Request, emulator: Emulator) -> Response:
    """The newest first, unless the client wants it otherwise."""
    items = list(_found(request, emulator)["items"])
    if request.query.get("order", "desc") != "asc":
        items.reverse()
    ids = [item.get("id") for item in items] or [None]
    return json_response(
        {"object": "list", "data": items, "first_id": ids[0], "last_id": ids[-1], "has_more": False}
    )


ROUTES: list[Route] = [
    ("POST", "/v1/conversations", create),
    ("GET", "/v1/conversations/{id}", read),
    ("DELETE", "/v1/conversations/{id}", delete),
    ("GET", "/v1/conversations/{id}/items", read_items),
]
