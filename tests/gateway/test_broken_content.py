"""Content that no provider takes: put into words or refused with its place, by `convert` and by the gateway alike."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.world import ROUTES, GatewayWorld
from segue import convert
from segue.errors import TranscriptError

PATHS = {
    "openai_chat": ("/v1/chat/completions", {"user-agent": "OpenAI/Python 3.51.0"}),
    "mistral": ("/mistral/v1/chat/completions", {}),
    "openai_responses": ("/v1/responses", {}),
    "ollama": ("/api/chat", {}),
    "gemini": (f"/v1beta/models/{ROUTES['anthropic']}:generateContent", {}),
}
BROKEN = "data:image/png;base64,no%20base64!!"


def _said(wire: str, content: Any, role: str = "user") -> dict[str, Any]:
    if wire == "gemini":
        return {"contents": [{"role": role, "parts": [content]}]}
    field = "input" if wire == "openai_responses" else "messages"
    return {field: [{"role": role, "content": content}]}


async def _asked(wire: str, body: dict[str, Any]) -> tuple[int, str, str]:
    path, headers = PATHS[wire]
    world = GatewayWorld()
    sent = body if wire == "gemini" else {**body, "model": ROUTES["anthropic"]}
    reply = await world.ask(path, sent, headers=headers)
    arrived = str(world.emulator.log[-1].body) if world.emulator.log else ""
    return reply.status, reply.body.decode(), arrived


@pytest.mark.parametrize(
    ("wire", "content"),
    [
        ("openai_chat", [{"type": "image_url", "image_url": {"url": BROKEN}}]),
        ("mistral", [{"type": "image_url", "image_url": BROKEN}]),
        ("openai_responses", [{"type": "input_image", "image_url": BROKEN}]),
        ("gemini", {"inlineData": {"mimeType": "image/png", "data": "no base64!!"}}),
    ],
)
def test_a_picture_whose_data_is_broken_is_described(wire: str, content: Any) -> None:
    body = _said(wire, content)
    words = "[image, image/png, its data is no base64: not shown, this model cannot see it here]"
    converted = convert(body, to="anthropic", source=wire)
    assert converted.request["messages"] == [{"role": "user", "content": words}]
    assert [repair.kind for repair in converted.repairs] == ["media_described"]
    status, _, arrived = asyncio.run(_asked(wire, body))
    assert status == 200
    assert words in arrived


def test_a_picture_without_its_padding_gets_it() -> None:
    body = _said(
        "openai_chat", [{"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8"}}]
    )
    converted = convert(body, to="anthropic")
    assert converted.request["messages"][0]["content"][0]["source"]["data"] == "aGVsbG8="
    assert converted.repairs == ()


@pytest.mark.parametrize(
    ("wire", "content", "role", "path"),
    [
        ("openai_chat", 5, "user", "messages[0].content"),
        ("openai_chat", [5], "user", "messages[0].content[0]"),
        ("openai_chat", "x", "USER", "messages[0].role"),
        ("mistral", 5, "user", "messages[0].content"),
        ("mistral", "x", "User", "messages[0].role"),
        ("openai_responses", 5, "user", "input[0].content"),
        ("openai_responses", "x", "USER", "input[0].role"),
        ("ollama", 5, "user", "messages[0].content"),
        ("gemini", {"text": 5}, "user", "contents[0].parts[0].text"),
        ("gemini", {"text": "x"}, "USER", "contents[0].role"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(
    wire: str, content: Any, role: str, path: str
) -> None:
    body = _said(wire, content, role)
    with pytest.raises(TranscriptError) as caught:
        convert(body, to="anthropic", source=wire)
    assert caught.value.path == path
    status, reply, _ = asyncio.run(_asked(wire, body))
    assert status == 400
    assert path in reply
    assert caught.value.message.partition('"')[0] in reply


@pytest.mark.parametrize("wire", ["openai_chat", "anthropic", "mistral", "converse"])
def test_a_missing_role_is_called_missing(wire: str) -> None:
    with pytest.raises(TranscriptError) as caught:
        convert({"messages": [{"content": "x"}]}, to="gemini", source=wire)
    assert (caught.value.path, caught.value.message) == ("messages[0].role", "The role is missing.")


def test_roles_in_capitals_are_read_on_a_wire_that_takes_them() -> None:
    body = _said("ollama", "Hello.", "USER")
    assert convert(body, to="anthropic", source="ollama").request["messages"] == [
        {"role": "user", "content": "Hello."}
    ]
    assert asyncio.run(_asked("ollama", body))[0] == 200
