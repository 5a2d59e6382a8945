"""Tools that a client introduces in the middle, as items: to every wire they are tools, and to their own they stay where they were."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.openai_responses.test_client_calls import refusal_of
from gateway.world import ROUTES, GatewayWorld
from segue.dialects.caches.read_cache import ReadCache
from segue.dialects.openai_responses import DIALECT
from segue.interop.convert import convert

MODEL = "gpt-5"
OTHERS = ["anthropic", "openai_chat", "gemini", "mistral", "ollama", "kimi"]


def tool(name: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    return {"type": "function", "name": name, "description": name, "parameters": schema, "strict": False}


def introduced(*tools: dict[str, Any]) -> dict[str, Any]:
    return {"type": "additional_tools", "role": "developer", "tools": list(tools)}


ITEMS: list[dict[str, Any]] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": "go"},
    {"type": "function_call", "call_id": "call_1", "name": "first", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "call_1", "output": "done"},
    {"role": "user", "content": "next"},
]


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, Any]:
    items = [*ITEMS]
    for number in range(draw(st.integers(1, 3))):
        space = {"type": "namespace", "name": f"space{number}", "description": "x", "tools": [tool("inner")]}
        given = [tool(f"tool{number}"), *([space] if draw(st.booleans()) else [])]
        items.insert(draw(st.integers(0, len(items))), introduced(*given))
    settings: dict[str, Any] = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "tools": st.just([tool("first")]),
                "tool_choice": st.sampled_from(["auto", "required", "none"]),
                "parallel_tool_calls": st.booleans(),
                "instructions": st.just("Be kind."),
            },
        )
    )
    return {"model": MODEL, "store": False, "input": items, **settings}


@given(body=bodies())
def test_they_return_to_their_own_wire_where_they_were(body: dict[str, Any]) -> None:
    assert refusal_of(body) is None
    converted = convert(body, to="openai_responses", strict=True)
    assert converted.request == body
    assert not converted.repairs


@given(body=bodies(), to=st.sampled_from(OTHERS))
def test_every_other_wire_is_offered_them_and_told_nothing_else(body: dict[str, Any], to: str) -> None:
    converted = convert(body, to=to)
    assert b"additional_tools" not in converted.body
    for item in body["input"]:
        for given_tool in item.get("tools", ()):
            name = given_tool["name"]
            name = f"{name}__inner" if given_tool["type"] == "namespace" else name
            assert f'"name":"{name}"'.encode() in converted.body
    assert not any(repair.lossy for repair in converted.repairs)


@given(body=bodies(), more=st.booleans())
def test_requests_with_them_are_read_the_same_way_with_a_cache(body: dict[str, Any], *, more: bool) -> None:
    cache = ReadCache(1 << 20, least=1)
    cache.read(DIALECT, json.dumps({**body, "input": ITEMS}).encode())
    items = [*ITEMS, *(body["input"] if more else [])]
    written = json.dumps({**body, "input": items}).encode()
    again, alone = cache.read(DIALECT, written), ReadCache(1 << 20).read(DIALECT, written)
    assert (again.conversation, again.tools, again.options) == (
        alone.conversation,
        alone.tools,
        alone.options,
    )


@pytest.mark.parametrize("model", ["responses", "anthropic", "gemini", "chat"])
def test_a_model_behind_the_gateway_can_call_them(model: str) -> None:
    async def main() -> None:
        world = GatewayWorld()
        schema = {"type": "object", "properties": {"city": {"type": "string"}}}
        weather = {"type": "function", "name": "weather", "parameters": schema, "strict": False}
        items = [introduced(weather), {"role": "user", "content": "Please look."}]
        reply = await world.ask("/v1/responses", {"model": ROUTES[model], "store": False, "input": items})
        assert reply.status == 200, reply.body
        kinds = [item["type"] for item in reply.json()["output"]]
        assert "function_call" in kinds
        assert world.refusals() == []

    asyncio.run(main())
