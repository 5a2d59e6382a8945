"""The state of a reply that is read piece by piece and reported as events. A whole message is one large delta."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct

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
from segue.conversation.extra import Extra
from segue.conversation.usage import Usage
from segue.dialects.openai_chat.citations import read_sources
from segue.dialects.openai_chat.errors import error_in_reply
from segue.dialects.openai_chat.wire import CallPiece, seal_of
from segue.dialects.replies.citations import read_annotations
from segue.dialects.replies.finish_reasons import FinishReasons
from segue.dialects.replies.usage_counts import XAI_TICKS, believed, count, counted, with_price_facts
from segue.dialects.requests.data_urls import media_from
from segue.errors import OverloadError, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from segue.conversation.events import Event
    from segue.dialects.openai_chat.rules import Variant
    from segue.dialects.openai_chat.wire import Chunk, Counts, Piece, Portion
    from segue.errors import SegueError


_OPEN, _CLOSE = "<think>", "</think>"


class InlineThoughts:
    """Separates thoughts from the answer while both arrive in pieces, wherever a tag is cut."""

    __slots__ = ("_held", "_place")

    def __init__(self) -> None:
        self._place: Literal["start", "inside", "gap", "answer"] = "start"
        self._held = ""
        """What may still become a tag."""

    @property
    def over(self) -> bool:
        """Whether all that comes is answer."""
        return self._place == "answer"

    def feed(self, text: str) -> tuple[str, str]:
        """The thought and the answer in the next piece."""
        if self._place == "answer":
            return "", text
        text, self._held = self._held + text, ""
        if self._place == "start":
            bare = text.lstrip()
            if len(bare) < len(_OPEN) and _OPEN.startswith(bare):
                self._held = text
                return "", ""
            if not bare.startswith(_OPEN):
                self._place = "answer"
                return "", text
            self._place, text = "inside", bare[len(_OPEN) :]
        thought = ""
        if self._place == "inside":
            thought, tag, text = text.partition(_CLOSE)
            if not tag:
                self._held = _beginning_of_tag(thought)
                return thought[: len(thought) - len(self._held)], ""
            self._place = "gap"
        answer = text.lstrip("\n")
        if answer:
            self._place = "answer"
        return thought, answer

    def close(self) -> tuple[str, str]:
        """Nothing more comes: what was held back is what it looked like."""
        held, self._held = self._held, ""
        return (held, "") if self._place == "inside" else ("", held)


def _beginning_of_tag(text: str) -> str:
    """The longest end of a text with which the closing tag may begin."""
    longest = min(len(text), len(_CLOSE) - 1)
    return next((text[-size:] for size in range(longest, 0, -1) if _CLOSE.startswith(text[-size:])), "")


FINISHES = FinishReasons(
    {
        "stop": ("stop", "eos", "end_turn", "stop_sequence"),
        "length": ("length", "max_tokens", "model_length"),
        "tool_calls": ("tool_calls", "tool_call", "tool_use", "function_call"),
        "content_filter": ("content_filter", "refusal", "safety", "sensitive"),
        "cancelled": ("abort", "cancelled"),
        "error": ("error", "network_error", "engine_overloaded", "insufficient_system_resource"),  # KIM-20
    }
)
"""The finish reasons of servers and ours; any other is an ordinary end."""
_ENCODER = msgspec.json.Encoder()
_GROWING = ("text", "summary", "data")
"""Fields of a reasoning detail that arrive in pieces."""


class ReplyReader:
    """Reads one reply, whole or chunk by chunk."""

    def __init__(self, variant: Variant) -> None:
        self._variant = variant
        self._id = self._model = ""
        self._next = 0
        self._text = self._thought = -1
        self._calls: list[_OpenCall] = []
        self._by_index: dict[int, _OpenCall] = {}
        self._by_id: dict[str, _OpenCall] = {}
        self._details: list[dict[str, Any]] = []
        self._thinks_aloud = False
        self._inline = InlineThoughts() if variant.inline_thoughts else None
        self._audio: list[str] = []
        self._audio_id = ""
        self._sources: tuple[list[Any], list[Any]] = [], []
        """Search results, and addresses, that stand beside the answer."""
        self._usage: Counts | None = None
        self._tier: Any = None
        self._finish: str | None = None
        self._refused = False
        self._answered = False
        self.introduced = False
        """Whether id and model are known."""
        self.over = False

    @property
    def sorted(self) -> bool:
        """Whether all text that still comes is the answer, and no thought between tags."""
        return self._inline is None

    def read(self, chunk: Chunk, events: list[Event], *, whole: bool = False) -> None:
        if not (self.over or chunk.error or self.introduced) and (chunk.id or chunk.model):
            if (not self._id and chunk.id) or (not self._model and chunk.model):
                self._id, self._model = self._id or chunk.id or "", self._model or chunk.model or ""
                events.append(ReplyStarted(self._id, self._model))
            self.introduced = bool(self._id and self._model)
        self.read_portion(chunk, events, whole=whole)

    def read_portion(self, portion: Portion, events: list[Event], *, whole: bool = False) -> None:
        if self.over:
            return
        if portion.error:
            self.fail(error_in_reply(self._variant, portion.error), events)
            return
        for choice in portion.choices or ():
            if choice.index:  # only the first of several answers is ours
                continue
            self._answered = True
            piece = (choice.message or choice.delta) if whole else (choice.delta or choice.message)
            if piece is not None:
                self._read_piece(piece, events, whole=whole)
            if choice.finish_reason:
                self._finish = choice.finish_reason
            if choice.usage is not None:  # KIM-19
                self._usage = choice.usage
            if choice.error:  # ORT-01
                self.fail(error_in_reply(self._variant, choice.error), events)
                return
        self._read_beside(portion)

    def _read_beside(self, portion: Portion) -> None:
        """What stands beside the choices."""
        if portion.citations or portion.search_results:  # with each chunk again
            self._sources = portion.search_results or self._sources[0], portion.citations or self._sources[1]
        if portion.service_tier is not None:
            self._tier = portion.service_tier
        if portion.usage is not None:
            self._usage = portion.usage
        elif portion.x_groq is not None:  # GRQ-03
            self._usage = portion.x_groq.usage or self._usage

    def end(self, events: list[Event], *, proper: bool) -> None:
        """Nothing more will come. `proper`: the reply was ended, not just cut off."""
        if self.over:
            return
        if not self._answered or (self._finish is None and not proper):
            what = (
                "The stream ended before the reply did." if self._answered else "The reply holds no answer."
            )
            self.fail(ProtocolError(what, code="reply_cut_off"), events)
            return
        raw = self._finish or ""
        reason = FINISHES.read(raw)
        if reason == "error":
            message = f'The provider ended its reply with "{raw}".'
            self.fail(OverloadError(message, code=raw), events)
            return
        if reason in ("stop", "tool_calls"):  # CHAT-62: whether there are calls decides, not the reason
            reason = "tool_calls" if self._calls else "stop"
        if self._refused and reason == "stop":
            reason, raw = "content_filter", "refusal"
        self._report_rest(events)
        events.append(Finished(reason, raw))

    def fail(self, error: SegueError, events: list[Event]) -> None:
        if not self.over:
            self._report_rest(events)
            events.append(Failed(error))

    def _report_rest(self, events: list[Event]) -> None:
        self.over = True
        thought, answer = self._inline.close() if self._inline is not None else ("", "")
        if thought:
            self._add_thought(thought, events)
        if answer:
            self._add_text(answer, events)
        if self._details:
            for detail in self._details:
                for field in _GROWING:
                    if isinstance(detail.get(field), list):
                        detail[field] = "".join(detail[field])
            opaque = any(detail.get("data") for detail in self._details)
            payload = _ENCODER.encode(self._details).decode()
            events.append(Sealed(self._thought, payload, "encrypted" if opaque else "signature"))
        if self._audio:
            own = Extra(self._variant.name, form={"id": self._audio_id}) if self._audio_id else None
            sound = Media("audio", "audio/wav", "".join(self._audio), extra=own)
            events.append(MediaArrived(self._new(), sound))
        sources = read_sources(*self._sources, self._variant.name)
        events += [Cited(self._text_index(), citation) for citation in sources]
        usage = usage_of(self._usage, self._tier)
        if usage is not None:
            events.append(UsageReported(usage))

    def _new(self) -> int:
        self._next += 1
        return self._next - 1

    def _read_piece(self, piece: Piece, events: list[Event], *, whole: bool) -> None:
        thought = piece.reasoning_content or piece.reasoning
        if thought:
            self._thinks_aloud = True
            self._inline = None
            self._add_thought(thought, events)
        if piece.reasoning_details:
            self._read_details(piece.reasoning_details, events, whole=whole)
        if piece.content:
            if self._inline is not None:
                self._sort(piece.content, self._inline, events)
            else:
                if self._text < 0:
                    self._text = self._new()
                events.append(TextDelta(self._text, piece.content))
        if piece.tool_calls:
            for position, call in enumerate(piece.tool_calls):
                self._read_call(call, events, position if whole else call.index)
        if piece.refusal or piece.function_call or piece.extra_content or piece.images or piece.audio:
            self._read_rest(piece, events)
        if piece.annotations:
            cited = read_annotations(piece.annotations, self._variant.name)
            events += [Cited(self._text_index(), citation) for citation in cited]

    def _read_rest(self, piece: Piece, events: list[Event]) -> None:
        """What is rarely there."""
        if piece.refusal:
            self._refused = True
            self._add_text(piece.refusal, events)
        if piece.function_call is not None and (piece.function_call.name or self._calls):
            self._read_call(CallPiece(0, None, piece.function_call), events, 0)
        if signature := seal_of(piece.extra_content):
            self._add_text("", events)
            events.append(Sealed(self._text, signature, "thought", "text"))
        self._read_media(piece, events)

    def _sort(self, text: str, inline: InlineThoughts, events: list[Event]) -> None:
        thought, answer = inline.feed(text)
        if thought:
            self._add_thought(thought, events)
        if answer:
            self._add_text(answer, events)
        if inline.over:
            self._inline = None

    def _add_text(self, text: str, events: list[Event]) -> None:
        events.append(TextDelta(self._text_index(), text))

    def _text_index(self) -> int:
        if self._text < 0:
            self._text = self._new()
        return self._text

    def _add_thought(self, text: str, events: list[Event]) -> None:
        if self._thought < 0:
            self._thought = self._new()
        events.append(ReasoningDelta(self._thought, text))

    def _read_details(self, details: Sequence[dict[str, Any]], events: list[Event], *, whole: bool) -> None:
        for detail in details:
            text = detail.get("text") or detail.get("summary")
            if isinstance(text, str) and not self._thinks_aloud:  # the same text stands in the plain field
                self._add_thought(text, events)
            elif self._thought < 0 and self._variant.details:
                self._add_thought("", events)  # its seal is reported at the end, its place is here
            if not self._variant.details:
                continue
            last = self._details[-1] if self._details and not whole else None
            if last is None or any(last.get(key) != detail.get(key) for key in ("type", "index")):
                self._details.append({key: [v] if _grows(key, v) else v for key, v in detail.items()})
                continue
            for key, value in detail.items():
                if _grows(key, value) and isinstance(last.get(key), list):
                    last[key].append(value)
                elif value not in (None, ""):
                    last[key] = [value] if _grows(key, value) else value

    def _read_call(self, piece: CallPiece, events: list[Event], index: int | None) -> None:
        call = self._find_call(piece, index)
        function = piece.function
        name = (function.name if function is not None else None) or ""
        if (piece.id and not call.id) or (name and not call.name) or not call.started:
            call.started = True
            call.id, call.name = call.id or piece.id or "", call.name or name
            events.append(CallStarted(call.index, call.id, call.name))
        if function is not None and function.arguments:
            events.append(ArgumentsDelta(call.index, function.arguments))
        if signature := seal_of(piece.extra_content):
            events.append(Sealed(call.index, signature, "thought", "call"))

    def _find_call(self, piece: CallPiece, index: int | None) -> _OpenCall:
        """CHAT-61: the call a piece belongs to is found by its index, else by its id, else it is the last one."""
        name = piece.function.name if piece.function is not None else None
        if index is not None:
            known = self._by_index.get(index)
            if known is not None and piece.id and known.id and piece.id != known.id and name:
                known = None  # some servers number every call 0
        elif piece.id:
            known = self._by_id.get(piece.id)
        else:
            known = self._calls[-1] if self._calls and not name else None
        if known is None:
            known = _OpenCall(self._new())
            self._calls.append(known)
        if index is not None:
            self._by_index[index] = known
        if piece.id:
            self._by_id[piece.id] = known
        return known

    def _read_media(self, piece: Piece, events: list[Event]) -> None:
        for image in piece.images or ():
            shown = image.get("image_url")
            url = shown.get("url") if isinstance(shown, dict) else None
            if isinstance(url, str):
                events.append(MediaArrived(self._new(), media_from(url, "image")))
        if piece.audio:
            transcript, data = piece.audio.get("transcript"), piece.audio.get("data")
            if isinstance(named := piece.audio.get("id"), str):
                self._audio_id = named
            if isinstance(transcript, str) and transcript:
                self._add_text(transcript, events)
            if isinstance(data, str) and data:
                self._audio.append(data)


class _OpenCall(Struct):
    """A call while it arrives."""

    index: int
    id: str = ""
    name: str = ""
    started: bool = False


def _grows(key: str, value: Any) -> bool:
    return key in _GROWING and isinstance(value, str)


def usage_of(counts: Counts | None, tier: Any = None) -> Usage | None:
    """CHAT-65: the prompt counts gross, cached tokens included. Where reasoning is counted apart, it is added. `tier`: the word
    that stands beside the counts."""
    if counts is None:
        return None
    prompt, completion = believed(counts.prompt_tokens), believed(counts.completion_tokens)
    reasoning = _detail(counts.completion_tokens_details, "reasoning_tokens")
    apart = counts.total_tokens == (prompt or 0) + (completion or 0) + (reasoning or 0)  # XAI-02
    if reasoning and (apart or reasoning > (completion or 0)):
        completion = (completion or 0) + reasoning
    cached = _first(
        _detail(counts.prompt_tokens_details, "cached_tokens"),
        counts.cached_tokens,
        counts.prompt_cache_hit_tokens,
        counts.cache_read_input_tokens,
    )
    written = _first(
        _detail(counts.prompt_tokens_details, "cache_write_tokens"), counts.cache_creation_input_tokens
    )
    usage = counted(
        prompt,
        completion,
        cached=cached,
        cache_write=written,
        reasoning=reasoning,
        heard=_detail(counts.prompt_tokens_details, "audio_tokens"),
        spoken=_detail(counts.completion_tokens_details, "audio_tokens"),
    )
    if usage == Usage():
        return None
    return with_price_facts(usage, tier or counts.service_tier, charged=_charged(counts))


def _charged(counts: Counts) -> Any:
    """What xAI, OpenRouter and Perplexity say that they charge. With the user's own key, OpenRouter's part is apart."""
    ticks = believed(counts.cost_in_usd_ticks)
    if ticks is not None:
        return ticks / XAI_TICKS
    if isinstance(counts.cost, dict):
        return counts.cost.get("total_cost")
    if counts.is_byok is not True or not isinstance(counts.cost, int | float):
        return counts.cost
    upstream = (counts.cost_details or {}).get("upstream_inference_cost")
    return counts.cost + upstream if isinstance(upstream, int | float) else None


def _detail(details: Mapping[str, Any] | None, name: str) -> int | None:
    return count(details, name) if details else None


def _first(*counts: int | None) -> int | None:
    return next((number for number in counts if number is not None), None)
