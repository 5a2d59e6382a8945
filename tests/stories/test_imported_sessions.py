"""Sessions of other programs resume at the provider that answered them, with every seal and id, over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from segue.interop.convert import write_request
from segue.interop.doctor import examine
from segue.interop.session_files import read_file
from segue.sessions.imports import import_session
from segue.sessions.stores.memory import MemoryStore
from stories.world import World, good_turn

CLAUDE = "anthropic/claude-sonnet-4-6"
CODEX = "openai/gpt-5.5"


def claude_code(requests: list[dict[str, Any]], model: str) -> bytes:
    """The session file of a program that sent the last of these requests and got no answer yet."""
    rows: list[dict[str, Any]] = []
    for number, message in enumerate(requests[-1]["messages"]):
        kind = message["role"]
        own = {"id": f"msg_{number}", "model": model} if kind == "assistant" else {}
        parent = rows[-1]["uuid"] if rows else None
        rows.append({"type": kind, "sessionId": "s", "uuid": f"u{number}", "parentUuid": parent})
        rows[-1]["message"] = {**message, **own}
    return _lines(rows)


def codex(requests: list[dict[str, Any]], model: str) -> bytes:
    meta = {"type": "session_meta", "payload": {"instructions": requests[-1]["instructions"]}}
    turn = {"type": "turn_context", "payload": {"model": model}}
    items = [{"type": "response_item", "payload": item} for item in requests[-1]["input"]]
    return _lines([meta, turn, *items])


def _lines(rows: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def sealed(value: Any) -> list[str]:
    """All seals and ids of calls in a request, in order."""
    if isinstance(value, list):
        return [found for item in value for found in sealed(item)]
    if not isinstance(value, dict):
        return []
    own = [value[name] for name in ("signature", "encrypted_content") if value.get(name)]
    if value.get("type") in ("tool_use", "function_call"):
        own.append(value.get("call_id") or value["id"])
    return own + [found for item in value.values() for found in sealed(item)]


@pytest.mark.parametrize(("name", "written"), [(CLAUDE, claude_code), (CODEX, codex)])
def test_an_imported_session_resumes_at_its_own_provider_with_all_seals_and_ids(
    world: World, name: str, written: Callable[[list[dict[str, Any]], str], bytes]
) -> None:
    model = name.partition("/")[2]

    async def main() -> tuple[bytes, int]:
        async with world.chat(name) as chat:
            await good_turn(chat)
            await good_turn(chat)
        before = [entry.body for entry in world.requests(name)]
        data = written(before, model)
        store = MemoryStore()
        journal, _ = await import_session(store, data, model=name)
        await journal.close()
        async with world.chat("", store=store, session=journal.session) as chat:
            await good_turn(chat)
        return data, len(before)

    data, count = asyncio.run(main())
    assert world.refusals() == []
    bodies = [entry.body for entry in world.requests(name)]
    kept = sealed(bodies[count - 1])
    assert any(value.startswith(("EqQB", "gAAAA")) for value in kept)
    assert any(value.startswith(("toolu_", "call_")) for value in kept)
    assert sealed(bodies[count])[: len(kept)] == kept

    # Doctor and convert have the same answer as the chat.
    source, lines = read_file(data)
    (diagnosis,) = examine(source, lines=lines).diagnoses
    assert diagnosis.findings == ()
    converted = write_request(source, to=source.dialect)
    assert sealed(converted.request) == kept
    assert not any(repair.lossy for repair in converted.repairs)


def test_a_session_of_two_models_gives_each_its_own_thoughts_and_doctor_reports_the_rest(
    world: World,
) -> None:
    async def main() -> None:
        async with world.chat(CLAUDE) as chat:
            await good_turn(chat)

    asyncio.run(main())
    rows = [
        json.loads(line)
        for line in claude_code([e.body for e in world.requests(CLAUDE)], "claude-sonnet-4-6").splitlines()
    ]
    for row in rows[-1:]:
        row["message"]["role"] = row["type"] = "user"
    again = [
        {**row, "uuid": f"again{row['uuid']}", "message": {**row["message"], "id": f"again{at}"}}
        for at, row in enumerate(rows)
    ]
    for at, row in enumerate(again):
        row["parentUuid"] = again[at - 1]["uuid"] if at else rows[-1]["uuid"]
        if row["type"] == "assistant":
            row["message"]["model"] = "claude-opus-4-6"
    source, lines = read_file(_lines([*rows, *again]))
    assert {message.origin.model for message in source.messages if message.origin} == {
        "claude-sonnet-4-6",
        "claude-opus-4-6",
    }
    for model in ("claude-sonnet-4-6", "claude-opus-4-6"):
        (diagnosis,) = examine(source, ["anthropic"], model=model, lines=lines).diagnoses
        converted = write_request(source, to="anthropic", model=model)
        dropped = [repair for repair in converted.repairs if repair.kind == "reasoning_dropped"]
        assert [finding.kind for finding in diagnosis.findings].count("reasoning_dropped") == len(dropped) > 0
        signatures = [value for value in sealed(converted.request) if value.startswith("EqQB")]
        assert len(signatures) == len(sealed_by(source.messages, model)) > 0


def sealed_by(messages: Iterable[Any], model: str) -> list[Any]:
    return [
        block
        for message in messages
        if message.origin is not None and message.origin.model == model
        for block in message.blocks
        if getattr(block, "seal", None) is not None
    ]
