"""Whole replies of the Responses wire as the events that a stream would give."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

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
from segue.dialects.openai_responses import wire
from segue.dialects.openai_responses.client_calls import call_of
from segue.dialects.openai_responses.errors import error_from
from segue.dialects.openai_responses.rules import NAME
from segue.dialects.replies.citations import read_annotations
from segue.dialects.replies.usage_counts import XAI_TICKS, count, counted, with_price_facts
from segue.dialects.requests.opaque_blocks import KIND
from segue.errors import ProtocolError
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from segue.conversation.events import Event, FinishReason
    from segue.conversation.usage import Usage

INCOMPLETE: Mapping[Any, FinishReason] = {  # RESP-62
    "max_output_tokens": "length",
    "max_messages": "length",
    "content_filter": "content_filter",
}
_CHARGED_OTHERWISE: Final = ("code_interpreter_call", "image_generation_call")
"""By the container and by the image, of which an item tells nothing."""
REFUSED = "refusal"
"""Our name for the end of a reply in which the model itself refused."""


def decode_reply(body: bytes) -> list[Event]:
    try:
        reply = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        reply = None
    if not isinstance(reply, dict):
        return [Failed(ProtocolError("The answer is not a reply of the Responses wire."))]
    output = reply.get("output")
    if not isinstance(output, list):
        error = reply.get("error")
        if isinstance(error, dict):
            return [Failed(error_from(error, FailedResponse(body=body)))]
        return [Failed(ProtocolError("The answer holds no output.", path="output"))]
    events: list[Event] = [started(reply)]
    reader = ItemReader()
    for index, item in enumerate(output):
        reader.settle(index, item, events)
    return [*events, *ended(reply, reader)]


def started(response: Mapping[str, Any]) -> ReplyStarted:
    return ReplyStarted(_text(response, "id"), _text(response, "model"))


def ended(response: Mapping[str, Any], reader: ItemReader) -> Iterator[Event]:
    """The events at the end of a response, from its final state (RESP-62)."""
    usage = usage_of(response.get("usage"))
    if usage is not None:
        yield UsageReported(_priced(usage, response))
    status, error = response.get("status"), response.get("error")
    if status == "failed" or isinstance(error, dict):
        yield Failed(error_from(error if isinstance(error, dict) else {"message": "The reply failed."}))
    elif status in ("queued", "in_progress"):
        yield Failed(ProtocolError(f"The reply is not finished: its status is {status}.", code="unfinished"))
    elif status == "incomplete":
        details = response.get("incomplete_details")
        reason = _text(details, "reason") if isinstance(details, dict) else ""
        yield Finished(INCOMPLETE.get(reason, "stop"), reason or "incomplete")
    elif status == "cancelled":
        yield Finished("cancelled", "cancelled")
    elif reader.refused and not reader.called:
        yield Finished("content_filter", REFUSED)
    else:
        yield Finished("tool_calls" if reader.called else "stop", status if isinstance(status, str) else "")


def usage_of(counts: Any) -> Usage | None:
    if not isinstance(counts, dict):
        return None
    read, written = counts.get("input_tokens_details"), counts.get("output_tokens_details")
    read = read if isinstance(read, dict) else {}
    return counted(
        count(counts, "input_tokens"),
        count(counts, "output_tokens"),
        cached=count(read, "cached_tokens"),
        cache_write=count(read, "cache_write_tokens"),
        reasoning=count(written, "reasoning_tokens") if isinstance(written, dict) else None,
    )


def _priced(usage: Usage, response: Mapping[str, Any]) -> Usage:
    """The counts with what else the price of a response depends on."""
    ran = Counter([item.get("type") for item in _items(response, "output") if _is_charged(item)])
    ticks = count(response["usage"], "cost_in_usd_ticks")
    return with_price_facts(
        usage,
        response.get("service_tier"),
        web_searches=ran["web_search_call"],
        file_searches=ran["file_search_call"],
        other_tool_runs=sum(ran[kind] for kind in _CHARGED_OTHERWISE),
        charged=None if ticks is None else ticks / XAI_TICKS,
    )


def _is_charged(item: Any) -> bool:
    """Searches are, pages that the provider opens or looks through are not."""
    if not isinstance(item, dict) or not isinstance(item.get("type"), str):
        return False
    action = item.get("action")
    return item["type"] != "web_search_call" or not isinstance(action, dict) or action.get("type") == "search"


def _text(held: Mapping[str, Any], name: str) -> str:
    value = held.get(name)
    return value if isinstance(value, str) else ""


def _items(held: Mapping[str, Any], name: str) -> list[Any]:
    value = held.get(name)
    return value if isinstance(value, list) else []


class ItemReader:
    """What was reported of each output item so far, so that its final state adds only what is missing (RESP-61)."""

    def __init__(self) -> None:
        self.called = False
        self.refused = False
        self._indexes: dict[tuple[Any, Any], int] = {}
        self.sent: dict[int, list[str]] = {}
        """The pieces of each block, by its index."""
        self._texts: dict[Any, list[Any]] = {}
        """Item → its parts that were reported; some servers count parts in deltas otherwise than in the item."""
        self._parts: dict[int, tuple[str, Any]] = {}
        self._sealed: set[int] = set()
        self._cited: dict[int, int] = {}
        """How many citations of each text were reported."""

    def index(self, item: Any, part: Any = 0) -> int:
        """The index of a block: texts differ by item and part, all else by item."""
        return self._indexes.setdefault((item, part), len(self._indexes))

    def text(self, item: Any, part: Any, more: str, events: list[Event]) -> None:
        index = self._indexes.get((item, part), -1)
        text = self.sent.get(index)
        if text is None:
            index = self.index(item, part)
            text = self.sent[index] = []
            self._texts.setdefault(item, []).append(part)
        text.append(more)
        if more:
            events.append(TextDelta(index, more))

    def cite(self, item: Any, part: Any, listed: Any, events: list[Event]) -> None:
        """Report the citations of a text that were not yet; `listed`: all of them."""
        index = self.index(item, part)
        known = self._cited.get(index, 0)
        found = read_annotations(listed, NAME)
        self._cited[index] = max(known, len(found))
        events += [Cited(index, citation) for citation in found[known:]]

    def cite_one(self, item: Any, part: Any, given: Any, events: list[Event]) -> None:
        index = self.index(item, part)
        self._cited[index] = self._cited.get(index, 0) + 1
        events += [Cited(index, citation) for citation in read_annotations([given], NAME)]

    def thought(self, item: Any, part: tuple[str, Any], more: str, events: list[Event]) -> None:
        """Parts of one thought are paragraphs."""
        index = self.index(item)
        if not more:
            return
        text = self.sent.setdefault(index, [])
        if text and self._parts.get(index) != part:
            more = f"\n\n{more}"
        self._parts[index] = part
        text.append(more)
        events.append(ReasoningDelta(index, more))

    def call(self, item: Any, call_id: str, name: str, events: list[Event]) -> None:
        index = self.index(item)
        if index not in self.sent:
            self.called = True
            self.sent[index] = []
            events.append(CallStarted(index, call_id, name))

    def arguments(self, item: Any, more: str, events: list[Event]) -> None:
        index = self.index(item)
        self.sent.setdefault(index, []).append(more)
        if more:
            events.append(ArgumentsDelta(index, more))

    def _missing(self, item: Any, part: Any, whole: str) -> str:
        """The end of a text of which the beginning was reported."""
        pieces = self.sent.get(self.index(item, part), [])
        text = "".join(pieces)
        if len(pieces) > 1:
            pieces[:] = [text]  # the final state of the whole reply asks once more
        return whole[len(text) :] if whole.startswith(text) else ""

    def settle(self, place: Any, item: Any, events: list[Event]) -> None:
        """The final state of an item."""
        if not isinstance(item, dict):
            return
        match item.get("type"):
            case "message":
                sent_parts = tuple(self._texts.get(place, ()))
                for number, content in enumerate(_items(item, "content")):
                    if isinstance(content, dict):
                        part = sent_parts[number] if number < len(sent_parts) else ("untold", number)
                        self.refused |= content.get("type") == "refusal"
                        whole = _text(content, "text") or _text(content, "refusal")
                        self.text(place, part, self._missing(place, part, whole), events)
                        self.cite(place, part, content.get("annotations"), events)
            case "reasoning":
                self._settle_thought(place, item, events)
            case "function_call":
                arguments = item.get("arguments")
                whole = arguments if isinstance(arguments, str) else json_of(arguments or {})
                self._settle_call(place, _text(item, "call_id"), wire.name_of(item), whole, events)
            case "image_generation_call":
                shown, index = _text(item, "result"), self.index(place)
                if shown and index not in self.sent:
                    self.sent[index] = []
                    mime = f"image/{_text(item, 'output_format') or 'png'}"
                    events.append(MediaArrived(index, Media("image", mime, shown)))
            case _:
                self._settle_other(place, item, events)

    def _settle_call(self, place: Any, call_id: str, name: str, whole: str, events: list[Event]) -> None:
        self.call(place, call_id, name, events)
        self.arguments(place, self._missing(place, 0, whole), events)

    def _settle_thought(self, place: Any, item: dict[str, Any], events: list[Event]) -> None:
        index = self.index(place)
        if not self.sent.get(index):
            for field in ("summary", "content"):
                for number, part in enumerate(_items(item, field)):
                    if isinstance(part, dict):
                        self.thought(place, (field, number), _text(part, "text"), events)
        # RESP-40: only the final state holds all of it.
        if (sealed := _text(item, "encrypted_content")) and index not in self._sealed:
            self._sealed.add(index)
            events.append(Sealed(index, sealed, "encrypted"))

    def _settle_other(self, place: Any, item: dict[str, Any], events: list[Event]) -> None:
        """Calls of other kinds that the client performs; what the provider does itself is kept for it."""
        call = call_of(item)
        index = self.index(place)
        if call is not None:
            call_id, name, arguments = call
            self._settle_call(place, call_id, name, json_of(arguments or {}), events)
        elif index not in self._sealed and isinstance(item.get("type"), str):
            self._sealed.add(index)
            events.append(Sealed(index, json_of(item), KIND, "text"))
