"""Replies that show the conversation object that they were added to, in bytes that are otherwise their provider's."""

from __future__ import annotations

import json

import pytest

from segue.dialects.server_side.stored_replies import in_conversation, stream_in_conversation

RESPONSE = {"id": "resp_1", "conversation": None, "output": [{"type": "message", "response": {}}]}


@pytest.mark.parametrize("end", ["\n\n", "\r\n\r\n"])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_each_response_of_a_stream_names_its_conversation(end: str, separators: tuple[str, str]) -> None:
    def frame(event: object, head: str = "event: any\n") -> str:
        return f"{head}data: {json.dumps(event, separators=separators)}{end}"

    others = [
        frame({"type": "response.output_text.delta", "delta": '"response":{'}),
        frame({"type": "other", "item": {"response": {"id": "no response of ours"}}}),
        f": keep-alive{end}",
        f"data: [DONE]{end}",
    ]
    shown = frame({"type": "response.completed", "sequence_number": 1, "response": RESPONSE})
    alone = frame({"response": RESPONSE, "type": "response.created"}, head="")
    made = stream_in_conversation("".join([alone, *others, shown]).encode(), "conv_1").decode()
    frames = made.split(end)
    assert [f"{one}{end}" for one in frames[1:5]] == others
    for one in (frames[0], frames[5]):
        event = json.loads(one.partition("data: ")[2])
        assert event["response"] == {**RESPONSE, "conversation": {"id": "conv_1"}}
    assert frames[5].startswith("event: any\ndata: ")
    assert frames[6:] == [""]


def test_a_whole_response_names_its_conversation() -> None:
    body = json.dumps(RESPONSE).encode()
    assert json.loads(in_conversation(body, "conv_1")) == {**RESPONSE, "conversation": {"id": "conv_1"}}
