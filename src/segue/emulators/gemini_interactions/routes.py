"""`/v1/interactions`: create, read back or resume, cancel, delete; what is stored lives in the emulator's memory (INT-02)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.emulators.gemini_interactions import checks, replies
from segue.emulators.gemini_interactions.checks import steps_in
from segue.emulators.gemini_interactions.replies import ERRORS
from segue.emulators.http import Request, Response, Route, json_response, stream_response
from segue.emulators.request_checks import admitted, permitted
from segue.emulators.rules import Context, Refusal, RefusedError, rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from segue.emulators.emulator import Emulator

PROVIDER = "gemini"
KEPT = 55 * 24 * 3600
"""Seconds that an interaction is kept (INT-07)."""
VERSIONS = ("v1", "v1beta", "v1beta2")


def create(request: Request, emulator: Emulator) -> Response:
    memory = emulator.memory(PROVIDER)
    memory.setdefault(checks.HELD, {})

    def steps(body: Mapping[str, Any]) -> list[Any]:
        return [*checks.before(body, memory), *steps_in(body)]

    body, context = admitted(
        request,
        emulator,
        ERRORS,
        checks.complaints,
        lambda body: replies.segments(body, steps(body)),
    )
    everything = steps(body)
    reply = emulator.reply(replies.prompt(body, everything, context))
    name = f"v1_{context.reply_id}"
    final = replies.whole(reply, body, everything, context, name)
    frames = list(replies.events(final, reply.chunk_size))
    record = {
        "interaction": final,
        "input": steps_in(body),
        "steps": [*everything, *final["steps"]],
        "account": context.account,
        "expires": context.now + KEPT,
        "frames": frames,
        "due": 0.0,
    }
    headers = ERRORS.headers(None, context)
    if body.get("background") is True:
        record["due"] = emulator.clock() + reply.delay * len(frames)
        record["final"] = final
        record["interaction"] = replies.head(body, context, name, "in_progress")
        memory[checks.HELD][name] = record
        if body.get("stream") is not True:
            return json_response(record["interaction"], headers=headers)
        return stream_response(iter(frames), headers=headers, delay=reply.delay)
    if body.get("stream") is True and not context.sends_whole:
        return stream_response(_then_keep(frames, record, body, memory), headers=headers, delay=reply.delay)
    _keep(record, body, memory)
    return json_response(final, headers=headers)


def _then_keep(
    frames: Sequence[bytes], record: dict[str, Any], body: Mapping[str, Any], memory: dict[str, Any]
) -> Iterator[bytes]:
    """An interaction whose stream was broken off is not kept; one whose last event was sent can be continued at once."""
    for number, frame in enumerate(frames):
        if number == len(frames) - 2:
            _keep(record, body, memory)
        yield frame


def _keep(record: dict[str, Any], body: Mapping[str, Any], memory: dict[str, Any]) -> None:
    if body.get("store") is not False:
        memory[checks.HELD][record["interaction"]["id"]] = record


@rule("INT-10")
def _found(request: Request, emulator: Emulator) -> tuple[dict[str, Any], Context]:
    context = permitted(request, emulator, ERRORS)
    name = request.params["id"]
    record = emulator.memory(PROVIDER).get(checks.HELD, {}).get(name)
    if record is None or record["account"] != context.account or record["expires"] <= context.now:
        raise RefusedError(Refusal("INT-10", f"Interaction {name} not found.", status=404), context)
    if "final" in record and record["due"] <= emulator.clock():
        record["interaction"] = record.pop("final")
    return record, context


@rule("INT-02")
def read(request: Request, emulator: Emulator) -> Response:
    record, context = _found(request, emulator)
    headers = ERRORS.headers(None, context)
    if request.query.get("stream") == "true":
        return stream_response(iter(_frames_after(record, request, context)), headers=headers)
    answer = dict(record["interaction"])
    if request.query.get("include_input") == "true":
        answer["input"] = record["input"]
    return json_response(answer, headers=headers)


@rule("INT-11")
def _frames_after(record: Mapping[str, Any], request: Request, context: Context) -> list[bytes]:
    last = request.query.get("last_event_id")
    if not last:
        return list(record["frames"])
    prefix, _, number = last.rpartition(".")
    if prefix != record["interaction"]["id"] or not number.isdigit():
        raise RefusedError(Refusal("INT-11", f"Invalid last_event_id '{last}'."), context)
    return list(record["frames"][int(number) + 1 :])


@rule("INT-11")
def cancel(request: Request, emulator: Emulator) -> Response:
    record, context = _found(request, emulator)
    if "final" not in record:
        text = f"Interaction {request.params['id']} is not in progress and cannot be cancelled."
        raise RefusedError(Refusal("INT-11", text, confidence="M"), context)
    del record["final"]
    record["interaction"] = {**record["interaction"], "status": "cancelled"}
    return json_response(record["interaction"], headers=ERRORS.headers(None, context))


def delete(request: Request, emulator: Emulator) -> Response:
    _, context = _found(request, emulator)
    del emulator.memory(PROVIDER)[checks.HELD][request.params["id"]]
    return json_response({}, headers=ERRORS.headers(None, context))


ROUTES: list[Route] = [
    route
    for version in VERSIONS
    for route in (
        ("POST", f"/{version}/interactions", create),
        ("GET", f"/{version}/interactions/{{id}}", read),
        ("POST", f"/{version}/interactions/{{id}}/cancel", cancel),
        ("DELETE", f"/{version}/interactions/{{id}}", delete),
    )
]
