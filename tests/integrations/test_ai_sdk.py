"""The stream for pages of the AI SDK: its parts, what a page sends, and the AI SDK's own reader if it is installed."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from base64 import b64encode
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from segue import Chat, MemoryStore, tool
from segue.conversation.blocks import Citation, Media, Text
from segue.conversation.usage import Usage
from segue.errors import UsageError
from segue.events import (
    Citations,
    Error,
    Finish,
    MediaChunk,
    ReasoningChunk,
    Repaired,
    TextChunk,
    Warned,
)
from segue.integrations.ai_sdk import UI_STREAM_HEADERS, read_ui_request, ui_message_stream
from segue.providers import Pause, ScriptedProvider, calls, says

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16


@tool(effect="read")
def weather(city: str) -> str:
    """The weather of a city."""
    if city == "Atlantis":
        raise LookupError("There is no such city.")
    return f"rain in {city}"


def scripted(*replies: Any) -> Chat:
    return Chat("scripted/any", tools=[weather], providers={"scripted": ScriptedProvider(replies)})


async def streamed(events: Any) -> bytes:
    return b"".join([portion async for portion in ui_message_stream(events)])


def parts_of(data: bytes) -> list[Any]:
    frames = data.decode().split("\n\n")
    assert frames[-2:] == ["data: [DONE]", ""]
    return [json.loads(frame.removeprefix("data: ")) for frame in frames[:-2]]


def turn(*replies: Any, words: str = "Hello.") -> bytes:
    async def main() -> bytes:
        async with scripted(*replies) as chat:
            return await streamed(chat.stream(words))

    return asyncio.run(main())


def events(*given: Any) -> bytes:
    async def source() -> Any:
        for event in given:
            yield event

    return asyncio.run(streamed(source()))


def test_a_turn_with_a_tool_is_two_steps_of_one_message() -> None:
    parts = parts_of(
        turn(calls(("weather", {"city": "Oslo"}), ("weather", {"city": "Atlantis"})), says("Rain."))
    )
    kinds = [part["type"] for part in parts if part["type"] != "data-segue"]
    assert kinds[:2] == ["start", "start-step"]
    assert kinds.count("tool-input-available") == 2
    assert kinds[-6:] == ["start-step", "text-start", "text-delta", "text-end", "finish-step", "finish"]
    inputs = {part["toolCallId"]: part for part in parts if part["type"] == "tool-input-available"}
    assert [part["input"] for part in inputs.values()] == [{"city": "Oslo"}, {"city": "Atlantis"}]
    [output] = [part for part in parts if part["type"] == "tool-output-available"]
    [failed] = [part for part in parts if part["type"] == "tool-output-error"]
    assert inputs[output["toolCallId"]]["input"] == {"city": "Oslo"}
    assert output["output"] == "rain in Oslo"
    assert inputs[failed["toolCallId"]]["input"] == {"city": "Atlantis"}
    assert "There is no such city." in failed["errorText"]
    assert parts[-1]["finishReason"] == "stop"


def test_thoughts_and_text_are_parts_that_end_before_the_next_begins() -> None:
    parts = parts_of(
        events(
            ReasoningChunk("Let"),
            ReasoningChunk(" me."),
            TextChunk("Yes"),
            TextChunk("."),
            Finish("complete"),
        )
    )
    assert [(part["type"], part.get("id"), part.get("delta")) for part in parts[2:-2]] == [
        ("reasoning-start", "1", None),
        ("reasoning-delta", "1", "Let"),
        ("reasoning-delta", "1", " me."),
        ("reasoning-end", "1", None),
        ("text-start", "2", None),
        ("text-delta", "2", "Yes"),
        ("text-delta", "2", "."),
        ("text-end", "2", None),
    ]


def test_sources_files_usage_and_notices_have_their_parts() -> None:
    cited = Citations((Citation(title="Sea", url="https://example.com"), Citation(document="notes.txt")))
    image = Media("image", "image/png", "aGk=")
    parts = parts_of(
        events(
            TextChunk("See."),
            cited,
            MediaChunk(image),
            Repaired(()),
            Warned("Careful.", "careful"),
            Finish("length", Usage(10, 5), 0.25),
        )
    )
    by_kind = {part["type"]: part for part in parts}
    assert by_kind["source-url"]["url"] == "https://example.com"
    assert by_kind["source-document"]["title"] == "notes.txt"
    assert by_kind["file"]["url"] == "data:image/png;base64,aGk="
    notices = [part for part in parts if part["type"] == "data-segue"]
    assert [notice["data"]["type"] for notice in notices] == ["repair", "warning"]
    assert all(notice["transient"] for notice in notices)
    assert by_kind["finish"]["finishReason"] == "length"
    assert by_kind["finish"]["messageMetadata"]["cost"] == 0.25
    assert by_kind["finish"]["messageMetadata"]["usage"]["input_tokens"] == 10


def test_a_turn_that_fails_ends_with_its_error() -> None:
    error = UsageError("There is no model.", code="no_model")
    parts = parts_of(events(TextChunk("He"), Error(error), Finish("error")))
    kinds = [part["type"] for part in parts]
    assert kinds[-5:] == ["text-delta", "text-end", "finish-step", "error", "finish"]
    assert parts[-2]["errorText"] == "There is no model."


def test_a_page_that_goes_away_cancels_the_turn() -> None:
    async def main() -> None:
        async with scripted([*says("One two three"), Pause(30)], says("Again.")) as chat:
            async with aclosing(ui_message_stream(chat.stream("Hello."))) as portions:
                await anext(portions)
                await anext(portions)
            assert not chat.busy
            assert str(await chat.send("Still there?"))

    asyncio.run(main())


def request(*parts: Any, **fields: Any) -> dict[str, Any]:
    return {"id": "chat-1", "messages": [{"id": "m", "role": "user", "parts": list(parts)}], **fields}


def test_the_last_message_of_a_page_is_read_with_its_files() -> None:
    url = f"data:image/png;base64,{b64encode(PNG).decode()}"
    body = request(
        {"type": "text", "text": "What is this?"},
        {"type": "file", "mediaType": "image/png", "filename": "a.png", "url": url},
        trigger="submit-message",
    )
    asked = read_ui_request(json.dumps(body).encode())
    assert asked.id == "chat-1"
    assert asked.content == (
        Text("What is this?"),
        Media("image", "image/png", b64encode(PNG).decode(), name="a.png"),
    )
    remote = read_ui_request(
        request({"type": "file", "mediaType": "image/png", "url": "https://example.com/a"})
    )
    assert remote.content == (Media("image", "image/png", url="https://example.com/a", name="a"),)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"[]", "no JSON object"),
        ({}, "none of the user's"),
        ({"messages": [{"role": "assistant", "parts": []}]}, "none of the user's"),
        (request({"type": "text", "text": "x"}, trigger="regenerate-message"), "written anew"),
        (request({"type": "tool-weather"}), 'type "tool-weather"'),
        (request({"type": "file", "url": "data:image/png;base64,??"}), "no data URL"),
        (request(3), 'type "int"'),
    ],
)
def test_what_a_chat_cannot_do_is_refused(body: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        read_ui_request(body)


def test_a_conversation_of_a_page_moves_between_models() -> None:
    store = MemoryStore()

    async def main() -> list[str]:
        texts: list[str] = []
        for number, name in enumerate(("one", "two", "one")):
            asked = read_ui_request(request({"type": "text", "text": f"Turn {number}"}))
            provider = ScriptedProvider([says(f"{name} answers.")])
            chat = Chat(f"{name}/any", session=asked.id, store=store, providers={name: provider})
            async with chat:
                parts = parts_of(await streamed(chat.stream(*asked.content)))
                texts.append("".join(part["delta"] for part in parts if part["type"] == "text-delta"))
                assert len(chat.conversation.messages) == 2 * (number + 1)
        return texts

    assert asyncio.run(main()) == ["one answers.", "two answers.", "one answers."]


READER = """
import { readFileSync } from "node:fs";
import { DefaultChatTransport, readUIMessageStream } from "ai";
const [file, headers] = process.argv.slice(2);
const answer = new Response(readFileSync(file), { headers: JSON.parse(headers) });
const sent = [];
const fetch = async (url, init) => { sent.push(JSON.parse(init.body)); return answer; };
const transport = new DefaultChatTransport({ api: "http://page.invalid/chat", fetch });
const user = { id: "u", role: "user", parts: [{ type: "text", text: "Hello." }] };
const stream = await transport.sendMessages({ chatId: "c", messages: [user], trigger: "submit-message" });
let message;
for await (const state of readUIMessageStream({ stream })) message = state;
console.log(JSON.stringify({ message, sent: sent[0] }));
"""


def test_the_reader_of_the_ai_sdk_makes_one_message_of_it(tmp_path: Path) -> None:
    modules, node = os.environ.get("SEGUE_NODE_MODULES", ""), shutil.which("node")
    if not modules or node is None:
        pytest.skip("The package ai is not installed: make frameworks")
    (tmp_path / "node_modules").symlink_to(modules)
    (tmp_path / "reader.mjs").write_text(READER)
    data = tmp_path / "stream"
    data.write_bytes(turn(calls(("weather", {"city": "Oslo"})), says("Rain.")))
    done = subprocess.run(  # noqa: S603
        [node, "reader.mjs", str(data), json.dumps(dict(UI_STREAM_HEADERS))],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    read = json.loads(done.stdout)
    parts = read["message"]["parts"]
    assert [part["type"] for part in parts] == ["step-start", "dynamic-tool", "step-start", "text"]
    assert parts[1]["state"] == "output-available"
    assert (parts[1]["input"], parts[1]["output"]) == ({"city": "Oslo"}, "rain in Oslo")
    assert (parts[3]["text"], parts[3]["state"]) == ("Rain.", "done")
    assert read_ui_request(read["sent"]).content == (Text("Hello."),)
