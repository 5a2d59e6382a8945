"""Whole replies of the Interactions wire as the events that a stream would give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from segue.conversation.blocks import Media
from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Cited,
    Failed,
    Finished,
    MediaArrived,
    ReasoningDelta,
    ReplyStarted,
    Sealed,
    TextDelta,
    UsageReported,
)
from segue.dialects.errors import FailedResponse
from segue.dialects.gemini_interactions.citations import read_citations
from segue.dialects.gemini_interactions.errors import error_from
from segue.dialects.gemini_interactions.read_steps import as_words
from segue.dialects.replies.usage_counts import count, counted, total, with_price_facts
from segue.dialects.requests.data_urls import kind_of
from segue.dialects.requests.opaque_blocks import KIND
from segue.errors import ProtocolError
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from segue.conversation.events import Event, FinishReason
    from segue.conversation.usage import Usage

FILTERED = "content_filter"
"""The code of the error beside an interaction that was stopped by a filter, as we write it; there is no status for it."""
_FILTERS = frozenset({FILTERED, "safety", "blocked", "prohibited_content", "recitation"})
_STATUSES: Mapping[Any, FinishReason] = {  # INT-05
    "completed": "stop",
    "requires_action": "tool_calls",
    "incomplete": "length",
    "budget_exceeded": "length",
    "requires_continuation": "length",
    "cancelled": "cancelled",
}
_RUNNING = ("queued", "in_progress")
_SHOWN = ("image", "audio", "document")


def decode_reply(body: bytes) -> list[Event]:
    try:
        reply = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        reply = None
    if not isinstance(reply, dict):
        return [Failed(ProtocolError("The answer is not a reply of the Interactions wire."))]
    steps = reply.get("steps")
    if not isinstance(steps, list) and not _text(reply, "status"):
        error = reply.get("error")
        if isinstance(error, dict):
            return [Failed(error_from(error, FailedResponse(body=body)))]
        return [Failed(ProtocolError("The answer holds no steps.", path="steps"))]
    events: list[Event] = [started(reply)]
    reader = StepReader()
    for index, step in enumerate(steps if isinstance(steps, list) else ()):
        reader.start(index, step, events)
        reader.stop(index, events)
    return [*events, *ended(reply, reader)]


def started(interaction: Mapping[str, Any]) -> ReplyStarted:
    return ReplyStarted(_text(interaction, "id"), _text(interaction, "model"))


def ended(interaction: Mapping[str, Any], reader: StepReader) -> Iterator[Event]:
    """The events at the end of an interaction, from its final state."""
    usage = usage_of(interaction.get("usage"))
    if usage is not None:
        yield UsageReported(usage)
    status = _text(interaction, "status")
    listed = interaction.get("errors")
    errors = [error for error in listed if isinstance(error, dict)] if isinstance(listed, list) else []
    codes = [error["code"] for error in errors if str(error.get("code")) in _FILTERS]
    if codes and status in ("incomplete", "failed", "completed"):
        yield Finished("content_filter", codes[0])
    elif status == "failed":
        yield Failed(error_from(errors[0] if errors else {"message": "The interaction failed."}))
    elif status in _RUNNING:
        yield Failed(
            ProtocolError(f"The interaction is not finished: its status is {status}.", code="unfinished")
        )
    else:
        finish = _STATUSES.get(status, "stop")
        if finish == "stop" and reader.called:
            finish = "tool_calls"
        yield Finished(finish, status)


def usage_of(counts: Any) -> Usage | None:
    """Thoughts are counted beside the output, and what Google's own tools read beside the input."""
    if not isinstance(counts, dict):
        return None
    thoughts = count(counts, "total_thought_tokens")
    usage = counted(
        total(count(counts, "total_input_tokens"), count(counts, "total_tool_use_tokens")),
        total(count(counts, "total_output_tokens"), thoughts),
        cached=count(counts, "total_cached_tokens"),
        reasoning=thoughts,
        heard=_audio_in(counts.get("input_tokens_by_modality")),
        spoken=_audio_in(counts.get("output_tokens_by_modality")),
    )
    if usage.total_tokens is None:
        return None
    return with_price_facts(usage, None, web_searches=_searches_in(counts.get("grounding_tool_count")))


def _audio_in(details: Any) -> int | None:
    listed = [one for one in details if isinstance(one, dict)] if isinstance(details, list) else []
    return total(*(count(one, "tokens") for one in listed if one.get("modality") == "audio"))


def _searches_in(details: Any) -> int:
    listed = [one for one in details if isinstance(one, dict)] if isinstance(details, list) else []
    return sum(count(one, "count") or 0 for one in listed if one.get("type") == "google_search")


def _text(held: Mapping[str, Any], name: str) -> str:
    value = held.get(name)
    return value if isinstance(value, str) else ""


def _items(held: Mapping[str, Any], name: str) -> list[Any]:
    value = held.get(name)
    return value if isinstance(value, list) else []


class _Step:
    """A step as far as it has come."""

    __slots__ = ("cited", "fields", "index", "kind", "open", "said", "signed")

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields
        self.kind = fields.get("type")
        self.index = -1
        """Of the block that more belongs to."""
        self.open = False
        """Whether more text goes on with that block."""
        self.said: list[str] = []
        self.cited = 0
        self.signed = False


class StepReader:
    """Reads the steps of a reply, whole or in portions."""

    def __init__(self) -> None:
        self.called = False
        self.steps: dict[int, _Step] = {}
        self._blocks = 0
        self._stopped: set[int] = set()

    def _block(self) -> int:
        self._blocks += 1
        return self._blocks - 1

    def knows(self, place: int) -> bool:
        return place in self.steps

    def start(self, place: int, given: Any, events: list[Event]) -> None:
        """A step, or its beginning."""
        if not isinstance(given, dict) or place in self.steps:
            return
        step = self.steps[place] = _Step(given)
        match step.kind:
            case "model_output":
                for content in _items(given, "content"):
                    step.open = False
                    self._show(step, content, events)
            case "thought":
                for part in _items(given, "summary"):
                    self._think(step, part, events, apart=True)
                self._sign(step, _text(given, "signature"), events)
            case "function_call":
                self.called = True
                step.index = self._block()
                events.append(CallStarted(step.index, _text(given, "id"), _text(given, "name")))
                arguments = given.get("arguments")
                if arguments:
                    self._argue(step, arguments if isinstance(arguments, str) else json_of(arguments), events)

    def more(self, place: int, delta: Any, events: list[Event]) -> None:
        """A portion of a step."""
        if not isinstance(delta, dict):
            return
        kind = delta.get("type")
        step = self.steps.get(place)
        if step is None:  # its beginning was not sent
            self.start(place, {"type": _KIND_OF.get(str(kind), "model_output")}, events)
            step = self.steps[place]
        match kind:
            case "text":
                self.text(step, _text(delta, "text"), events)
            case "thought_summary":
                self._think(step, delta.get("content"), events)
            case "thought_signature":
                self._sign(step, _text(delta, "signature"), events)
            case "arguments_delta":
                self._argue(step, _text(delta, "arguments"), events)
            case "text_annotation_delta":
                self._cite(step, delta.get("annotations"), events)
            case "image" | "audio" | "document" | "video" if step.kind == "model_output":
                self._show(step, delta, events)
            case _:
                step.fields = _joined(step.fields, delta)

    def stop(self, place: int, events: list[Event]) -> None:
        """A step is complete."""
        step = self.steps.get(place)
        if step is None or place in self._stopped:
            return
        self._stopped.add(place)
        if step.kind == "function_call":
            if not step.said:
                events.append(ArgumentsDelta(step.index, "{}"))
        elif step.kind not in ("model_output", "thought", "user_input") and isinstance(step.kind, str):
            index = self._block()
            events.append(Sealed(index, json_of(step.fields), KIND, "text"))
            events.append(TextDelta(index, as_words(step.fields)))

    def text(self, step: _Step, more: str, events: list[Event]) -> None:
        if not step.open:
            step.open, step.index, step.said, step.cited = True, self._block(), [], 0
        step.said.append(more)
        if more:
            events.append(TextDelta(step.index, more))

    def _show(self, step: _Step, content: Any, events: list[Event]) -> None:
        if not isinstance(content, dict):
            return
        kind = content.get("type")
        if kind == "text":
            self.text(step, _text(content, "text"), events)
            self._cite(step, content.get("annotations"), events)
            return
        step.open = False
        data, mime = _text(content, "data"), _text(content, "mime_type")
        index = self._block()
        if kind in _SHOWN and data:
            shown = Media(kind_of(mime) if mime else kind, mime, data)
            events.append(MediaArrived(index, shown))
        elif isinstance(kind, str):
            events.append(Sealed(index, json_of(content), KIND, "text"))
            events.append(TextDelta(index, as_words(content)))

    def _cite(self, step: _Step, listed: Any, events: list[Event]) -> None:
        if not isinstance(listed, list) or not listed:
            return
        if not step.open:
            self.text(step, "", events)
        events += [Cited(step.index, citation) for citation in read_citations(listed, "".join(step.said))]

    def _think(self, step: _Step, part: Any, events: list[Event], *, apart: bool = False) -> None:
        """Parts of one thought are paragraphs; deltas are portions of one."""
        more = _text(part, "text") if isinstance(part, dict) else ""
        if not more:
            return
        if step.index < 0:
            step.index = self._block()
        elif apart and step.said:
            more = f"\n\n{more}"
        step.said.append(more)
        events.append(ReasoningDelta(step.index, more))

    def _sign(self, step: _Step, signature: str, events: list[Event]) -> None:
        if not signature:
            return
        if step.index < 0:
            step.index = self._block()
        events.append(Sealed(step.index, signature, "thought"))

    def _argue(self, step: _Step, more: str, events: list[Event]) -> None:
        if more:
            step.said.append(more)
            events.append(ArgumentsDelta(step.index, more))


_KIND_OF = {
    "thought_summary": "thought",
    "thought_signature": "thought",
    "arguments_delta": "function_call",
}


def _joined(step: dict[str, Any], delta: dict[str, Any]) -> dict[str, Any]:
    """A step of Google's own tools with a portion more."""
    joined = dict(step)
    for name, value in delta.items():
        held = joined.get(name)
        if isinstance(held, list) and isinstance(value, list):
            joined[name] = [*held, *value]
        elif isinstance(held, dict) and isinstance(value, dict):
            joined[name] = {**held, **value}
        elif name != "type":
            joined[name] = value
    return joined
