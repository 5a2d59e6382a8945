"""Every recorded 2xx reply of a chat, with the dialect that it is in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from dialects.traffic import CORPUS, Recording, _read
from segue.conversation.events import Event, Failed
from segue.dialects.registry import DIALECTS

SPEAKERS: Final = {
    "openai": "openai_chat",
    "azure": "openai_chat",
    "deepseek": "deepseek",
    "xai": "xai",
    "groq": "groq",
    "openrouter": "openrouter",
    "zai": "glm",
    "moonshot": "kimi",
    "dashscope": "qwen",
    "ollama": "ollama_v1",
    "mistral": "mistral",
}
MARKS: Final = (
    ("openai_responses", (b'"response.created"', b'"object":"response"', b'"object": "response"')),
    ("anthropic", (b'"message_start"', b'"type": "message"', b'"type":"message"')),
    ("gemini", (b'"candidates"',)),
    ("chat", (b'"chat.completion', b'"choices"')),
    ("ollama", (b'"done"',)),
)
"""What stands in a reply of each wire. The first that fits is meant."""


class RecordedReply(Struct, frozen=True):
    """The events of a reply, and who made it."""

    name: str
    maker: str
    events: list[Event]


def maker_of(recording: Recording) -> str:
    """The dialect of a reply; empty if it is no reply of a chat that we know."""
    head = recording.body[:4000]
    found = next((name for name, marks in MARKS if any(mark in head for mark in marks)), "")
    if found == "chat":
        return SPEAKERS.get(recording.name.partition("__")[0], "openai_compatible")
    return found


def recorded_replies(every: int = 1) -> Iterator[RecordedReply]:
    """The replies; with `every` only each so-many-th recording is looked at."""
    for path in sorted(CORPUS.glob("*.json"))[::every]:
        recording = _read(path)
        maker = "" if recording.status >= 300 else maker_of(recording)
        if not maker:
            continue
        dialect = DIALECTS[maker]
        streamed = bool(recording.stream) or recording.body.lstrip()[:5] in (b"data:", b"event")
        if streamed or (maker == "gemini" and recording.body.lstrip()[:1] == b"["):
            decoder = dialect.new_decoder()
            events = decoder.feed(recording.body) + decoder.close()
        else:
            events = dialect.decode_reply(recording.body)
        if events and not any(isinstance(event, Failed) for event in events):
            yield RecordedReply(path.name, maker, events)
