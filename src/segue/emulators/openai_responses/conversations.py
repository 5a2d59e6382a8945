"""`/v1/conversations`: items that the server holds, to which every response of a conversation adds (CNV-01, CNV-02)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.emulators.http import BadJsonError, Request, Response, Route, json_response
from segue.emulators.openai_responses.errors import ERRORS
from segue.emulators.request_checks import permitted
from segue.emulators.rules import Complaints, Context, Refusal, RefusedError, rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, MutableMapping

    from segue.emulators.emulator import Emulator

HELD = "conversations"
"""Of the memory: the id of each conversation → its record and its items."""
MOST_ITEMS = 20
PAGE, MOST_LISTED = 20, 100


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


@rule("CNV-03", "H")
def locked_conversation(body: Mapping[str, Any], context: Context) -> Complaints:
    """One writer at a time."""
    record = context.memory.get(HELD, {}).get(named_in(body))
    if record is not None and record["in_flight"]:
        text = f"Another process is currently operating on this conversation ('{named_in(body)}')."
        yield Refusal("CNV-03", text, code="conversation_locked", param="conversation")


@rule("CNV-02", "H")
def append(
    body: Mapping[str, Any], items: list[Any], output: list[Any], memory: MutableMapping[str, Any]
) -> None:
    """Add a complete turn to its conversation. `items`: of the request alone."""
    record = memory.get(HELD, {}).get(named_in(body))
    if record is not None:
        _add(record, [*items, *output])


def _add(record: dict[str, Any], items: list[Any]) -> list[Any]:
    """Each with an id, as it is listed from now on."""
    added: list[Any] = []
    for item in items:
        kind = item.get("type", "message")
        record["count"] += 1
        begins = "msg" if kind == "message" else "item"
        named = {"id": f"{begins}_{record['record']['id']}_{record['count']}", "type": kind, **item}
        if kind == "message":
            part = "output_text" if item.get("role") == "assistant" else "input_text"
            given = item.get("content")
            named["content"] = [{"type": part, "text": given}] if isinstance(given, str) else given
            named["status"] = "completed"
        added.append(named)
    record["items"] += added
    return added


def in_flight(
    portions: Iterator[bytes], body: Mapping[str, Any], memory: MutableMapping[str, Any]
) -> Iterator[bytes]:
    """A stream, while which nobody else may add to its conversation."""
    record = memory.get(HELD, {}).get(named_in(body))
    if record is None:
        yield from portions
        return
    record["in_flight"] = True
    try:
        yield from portions
    finally:
        record["in_flight"] = False


@rule("CNV-01", "H")
def create(request: Request, emulator: Emulator) -> Response:
    context = permitted(request, emulator, ERRORS)
    body = _body(request, context)
    items = _items(body, context)
    name = f"conv_{context.reply_id}"
    record = {
        "id": name,
        "object": "conversation",
        "created_at": context.now,
        "metadata": _metadata(body, context),
    }
    held: dict[str, Any] = {"record": record, "items": [], "count": 0, "in_flight": False}
    emulator.memory("openai").setdefault(HELD, {})[name] = held
    _add(held, items)
    return json_response(record)


def _body(request: Request, context: Context) -> Mapping[str, Any]:
    try:
        body = request.json() if request.body else {}
    except BadJsonError as error:
        raise RefusedError(ERRORS.not_json(request.body, str(error)), context) from error
    return body if isinstance(body, dict) else {}


def _items(body: Mapping[str, Any], context: Context) -> list[Any]:
    items = body.get("items") or []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise RefusedError(Refusal("CNV-01", "Invalid type for 'items'.", param="items"), context)
    if len(items) > MOST_ITEMS:
        text = f"Invalid 'items': array too long. Expected an array with maximum length {MOST_ITEMS}."
        raise RefusedError(Refusal("CNV-01", text, param="items"), context)
    return items


def _metadata(body: Mapping[str, Any], context: Context) -> dict[str, Any]:
    metadata = body.get("metadata") or {}
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise RefusedError(Refusal("CNV-01", "Invalid type for 'metadata'.", param="metadata"), context)
    return metadata


def _found(request: Request, emulator: Emulator) -> tuple[dict[str, Any], Context]:
    context = permitted(request, emulator, ERRORS)
    held: dict[str, dict[str, Any]] = emulator.memory("openai").get(HELD, {})
    if (name := request.params["id"]) not in held:
        raise RefusedError(_not_found(name), context)
    return held[name], context


def read(request: Request, emulator: Emulator) -> Response:
    return json_response(_found(request, emulator)[0]["record"])


def update(request: Request, emulator: Emulator) -> Response:
    held, context = _found(request, emulator)
    held["record"]["metadata"] = _metadata(_body(request, context), context)
    return json_response(held["record"])


def delete(request: Request, emulator: Emulator) -> Response:
    name = _found(request, emulator)[0]["record"]["id"]
    del emulator.memory("openai")[HELD][name]
    return json_response({"id": name, "object": "conversation.deleted", "deleted": True})


@rule("CNV-01", "H")
def read_items(request: Request, emulator: Emulator) -> Response:
    """A page; the newest first, unless the client wants it otherwise."""
    held, context = _found(request, emulator)
    items = list(held["items"])
    if request.query.get("order", "desc") != "asc":
        items.reverse()
    ids, after = [item["id"] for item in items], request.query.get("after")
    limit = request.query.get("limit", str(PAGE))
    if not limit.isdigit() or not 1 <= int(limit) <= MOST_LISTED:
        text = f"Invalid 'limit': expected an integer from 1 to {MOST_LISTED}."
        raise RefusedError(Refusal("CNV-01", text, param="limit"), context)
    start = ids.index(after) + 1 if after in ids else 0
    return _list(items[start : start + int(limit)], more=start + int(limit) < len(items))


def _list(items: list[Any], *, more: bool = False) -> Response:
    ids = [item["id"] for item in items] or [None]
    return json_response(
        {"object": "list", "data": items, "first_id": ids[0], "last_id": ids[-1], "has_more": more}
    )


@rule("CNV-01", "H")
@rule("CNV-03", "H")
def add_items(request: Request, emulator: Emulator) -> Response:
    held, context = _found(request, emulator)
    if held["in_flight"]:
        text = "Another process is currently operating on this conversation."
        raise RefusedError(Refusal("CNV-03", text, code="conversation_locked", param="conversation"), context)
    return _list(_add(held, _items(_body(request, context), context)))


def _one(request: Request, emulator: Emulator) -> tuple[dict[str, Any], dict[str, Any]]:
    held, context = _found(request, emulator)
    name = request.params["item"]
    for item in held["items"]:
        if item["id"] == name:
            return held, item
    raise RefusedError(Refusal("CNV-01", f"Item with id '{name}' not found.", status=404), context)


def read_item(request: Request, emulator: Emulator) -> Response:
    return json_response(_one(request, emulator)[1])


def delete_item(request: Request, emulator: Emulator) -> Response:
    held, item = _one(request, emulator)
    held["items"].remove(item)
    return json_response(held["record"])


ROUTES: list[Route] = [
    ("POST", "/v1/conversations", create),
    ("GET", "/v1/conversations/{id}", read),
    ("POST", "/v1/conversations/{id}", update),
    ("DELETE", "/v1/conversations/{id}", delete),
    ("GET", "/v1/conversations/{id}/items", read_items),
    ("POST", "/v1/conversations/{id}/items", add_items),
    ("GET", "/v1/conversations/{id}/items/{item}", read_item),
    ("DELETE", "/v1/conversations/{id}/items/{item}", delete_item),
]
