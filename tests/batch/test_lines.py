"""Lines of a file of requests: which forms are understood, and that bad ones are named before anything is sent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from batch.worlds import World
from segue.batch import read_lines
from segue.conversation.blocks import Media, Text
from segue.errors import UsageError

USER = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    "line",
    [
        {"prompt": "hi"},
        {"messages": USER},
        {
            "custom_id": "1",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"model": "m", "messages": USER},
        },
        {"custom_id": "1", "method": "POST", "url": "/v1/responses", "body": {"model": "m", "input": "hi"}},
        {"custom_id": "1", "params": {"model": "m", "max_tokens": 5, "messages": USER}},
        {"custom_id": "1", "body": {"messages": USER}},
        {"key": "1", "request": {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}},
        {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
    ],
)
def test_every_known_form_of_a_line_is_the_same_request(line: dict[str, object]) -> None:
    [request] = read_lines(json.dumps(line).encode())
    assert [message.speaker for message in request.conversation.messages] == ["user"]
    assert request.conversation.messages[0].blocks[0] == Text("hi")
    assert (request.name, request.line) == ("1", 1)


def test_settings_of_a_prompt_and_its_files_are_part_of_the_request(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    line = {
        "id": 7,
        "prompt": "hi",
        "system": "Be brief.",
        "attachments": ["a.png"],
        "temperature": 0.5,
        "stop": "END",
        "schema": {"type": "object"},
    }
    [request] = read_lines(json.dumps(line).encode(), folder=tmp_path)
    assert request.name == "7" and request.conversation.system == "Be brief."
    assert isinstance(request.conversation.messages[0].blocks[1], Media)
    assert (request.options.temperature, request.options.stop) == (0.5, ("END",))
    assert request.options.response_schema == {"type": "object"}


def test_every_bad_line_is_named_with_its_number_and_its_fault() -> None:
    lines = [
        '{"prompt": "fine"}',
        "{no json",
        "[1]",
        "",
        '{"promt": "typo"}',
        '{"prompt": "x", "temprature": 1}',
        '{"prompt": "x", "temperature": "warm"}',
        '{"custom_id": "a", "method": "POST", "url": "/v1/embeddings", "body": {}}',
        '{"prompt": "x", "attachments": ["missing.png"]}',
        '{"messages": [{"role": "user", "content": "x"}, 5]}',
        '{"id": "1", "prompt": "the number of line 1"}',
    ]
    with pytest.raises(UsageError) as raised:
        read_lines("\n".join(lines).encode())
    text = raised.value.message
    assert text.startswith("Nothing was sent: 9 lines cannot be used.")
    for number in (2, 3, 5, 6, 7, 8, 9, 10, 11):
        assert f"\nline {number}: " in text
    assert "line 1:" not in text and "line 4:" not in text
    assert 'Did you mean "temperature"?' in text or "temperature" in text


def test_a_file_without_requests_is_refused() -> None:
    with pytest.raises(UsageError, match="holds no request"):
        read_lines(b"\n\n")


def test_a_line_that_stands_for_messages_of_a_server_is_refused() -> None:
    body = {"model": "m", "input": "hi", "previous_response_id": "resp_1"}
    line = {"custom_id": "1", "method": "POST", "url": "/v1/responses", "body": body}
    with pytest.raises(UsageError, match="line 1: Its previous_response_id refers to messages"):
        read_lines(json.dumps(line).encode())


def test_a_line_that_cannot_be_sent_to_the_model_is_named_before_anything_is_sent(world: World) -> None:
    source = {"type": "file", "file_id": "file_1"}
    content = [{"type": "document", "source": source}, {"type": "text", "text": "x"}]
    params = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": content}]}
    lines = f'{{"prompt": "fine"}}\n{json.dumps({"custom_id": "a", "params": params})}\n'
    with pytest.raises(UsageError, match="line 2: It names files by ids, which openai does not hold"):
        world.batch(lines, "openai/gpt-4.1")
    assert not world.emulator.log
