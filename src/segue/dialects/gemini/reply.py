"""Replies of the Gemini wire, both ways: one shape, whole or in portions, as the same events (GEM-51)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Raw

from segue.conversation.blocks import Code, Media, Reasoning, Text, ToolCall
from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Cited,
    Finished,
    MediaArrived,
    ReasoningDelta,
    ReplyStarted,
    Sealed,
    TextDelta,
    UsageReported,
)
from segue.conversation.usage import Usage
from segue.dialects.gemini import opaque_parts, wire
from segue.dialects.gemini.citations import read_metadata, write_metadata
from segue.dialects.gemini.errors import encode_error, error_from
from segue.dialects.replies.calls import compact_arguments
from segue.dialects.replies.finish_reasons import FinishReasons
from segue.dialects.replies.usage_counts import count, counted, total, with_price_facts
from segue.dialects.requests.data_urls import kind_of
from segue.dialects.streams.chunk_streams import ChunkReader
from segue.dialects.streams.garbled_lines import UNREADABLE, check_encoding
from segue.errors import ProtocolError
from segue.transcript.blocks.media import written_out
from segue.transcript.blocks.value_text import json_of
from segue.transcript.rules import media_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.conversation.blocks import Block, Seal
    from segue.conversation.events import Event, FinishReason, Reply
    from segue.conversation.message import Message
    from segue.errors import SegueError


_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")
_MAX_INDEX = 10_000


def add_pieces(arguments: dict[str, Any], pieces: list[dict[str, Any]]) -> None:
    """Add them to the object as far as it is known."""
    for piece in pieces:
        name = next((name for name in _VALUES if name in piece), None)
        steps = _steps(piece.get("jsonPath"))
        if name is not None and steps:
            _put(arguments, steps, None if name == "nullValue" else piece[name])


def _steps(path: Any) -> list[str | int]:
    if not isinstance(path, str):
        return []
    return [
        int(found[2]) if found[2] is not None else found[1] or found[3] or found[4] or ""
        for found in _STEP.finditer(path.removeprefix("$"))
    ]


def _put(held: Any, steps: list[str | int], value: Any) -> None:
    """Texts come in portions: what is known of one already goes in front."""
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if isinstance(step, int) and isinstance(held, list) and step < _MAX_INDEX:
            held.extend([None] * (step + 1 - len(held)))
            known = held[step]
        elif isinstance(step, str) and isinstance(held, dict):
            known = held.get(step)
        else:
            return
        if following is None:
            known = known + value if isinstance(known, str) and isinstance(value, str) else value
        elif not isinstance(known, dict | list):
            known = [] if isinstance(following, int) else {}
        held[step] = known
        held = known


FINISHES = FinishReasons(  # GEM-54; GEM-53: there is no reason of its own for calls
    {
        "stop": ("STOP", "OTHER", "NO_IMAGE", "IMAGE_OTHER"),
        "length": ("MAX_TOKENS", "CONTINUATION"),
        "content_filter": (
            *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY"),
            *("IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "MODEL_ARMOR", "JAILBREAK", "ESCALATION"),
            "PUP_LIMITED_DISABLED",
        ),
        "error": (
            *("MALFORMED_RESPONSE", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"),
            "MISSING_THOUGHT_SIGNATURE",
        ),
    },
    writes={"cancelled": "OTHER"},
)
_NUMBERED: Mapping[str | int, str] = {
    1: "STOP",
    2: "MAX_TOKENS",
    3: "SAFETY",
    4: "RECITATION",
    5: "OTHER",
    9: "MALFORMED_FUNCTION_CALL",
}
"""Reasons by number, as servers with generated code may send them."""
_UNSPECIFIED: frozenset[str | int] = frozenset({"FINISH_REASON_UNSPECIFIED", 0})
"""No reason yet, from servers that write every field."""
_decode_portion = wire.PORTIONS.decode


def decode_reply(body: bytes) -> list[Event]:
    events: list[Event] = []
    reader = ReplyReader()
    reader.unreadable = ProtocolError("The answer is not a reply of the Gemini wire.")
    reader.read(body, events)
    reader.end(events)
    return events


class ReplyReader(ChunkReader):
    """Reads a reply, whole or in portions."""

    __slots__ = ("_called", "_cited", "_counts", "_partial", "_searches", "_started", "_text_at")

    def __init__(self) -> None:
        super().__init__()
        self._partial: dict[str, Any] | None = None
        self._counts = Raw()
        self._searches = 0
        self._started = False
        self._called = False
        self._text_at = -1
        """The index of the last text."""
        self._cited: dict[str, Any] = {}
        """What stands beside the content about sources: a later portion has more of it."""

    def read(self, data: bytes, events: list[Event]) -> None:
        try:
            check_encoding(data)
            if self._started:
                portion = _decode_portion(data)
                if portion.candidates and portion.error is None:
                    self._read_candidate(portion.candidates[0], portion.usage_metadata, events)
                    return
            chunk = wire.CHUNKS.decode(data)
        except UNREADABLE:
            self._read_garbled(data, events)
            return
        if chunk.error is not None:  # GEM-57
            fields = chunk.error if isinstance(chunk.error, dict) else {"message": str(chunk.error)}
            self._fail(error_from(fields), events)
            return
        if not self._started and (chunk.response_id or chunk.model_version or chunk.candidates):
            self._started = True
            events.append(ReplyStarted(chunk.response_id or "", chunk.model_version or ""))
        if chunk.candidates:
            self._read_candidate(chunk.candidates[0], chunk.usage_metadata, events)
            return
        if chunk.usage_metadata:
            self._counts = chunk.usage_metadata
        if chunk.prompt_feedback is not None:  # GEM-55
            blocked = chunk.prompt_feedback.get("blockReason")
            if blocked:
                self._finish(str(blocked), events, default="content_filter")

    def _read_candidate(self, candidate: wire.Candidate, counts: Raw, events: list[Event]) -> None:
        if counts:
            self._counts = counts
        if candidate.content is not None:
            for part in candidate.content.parts or ():
                text = part.text
                if (
                    text
                    and self._open == "text"
                    and not (part.thought or part.thought_signature or part.function_call)
                ):
                    events.append(TextDelta(self._index, text))
                else:
                    self._read_part(part, events)
        if candidate.grounding_metadata is not None:
            self._searches = max(self._searches, _searches_in(candidate.grounding_metadata))
        if candidate.grounding_metadata or candidate.citation_metadata or candidate.url_context_metadata:
            self._read_sources(candidate)
        reason = candidate.finish_reason
        if reason is not None and reason not in _UNSPECIFIED:
            self._finish(_NUMBERED.get(reason, str(reason)), events)

    def _read_sources(self, candidate: wire.Candidate) -> None:
        for name in ("grounding_metadata", "citation_metadata", "url_context_metadata"):
            held, known = getattr(candidate, name), self._cited.get(name)
            if isinstance(held, dict):
                self._cited[name] = {**known, **held} if isinstance(known, dict) else held

    def _report_sources(self, events: list[Event]) -> None:
        cited = read_metadata(**self._cited) if self._cited else []
        if cited and self._text_at < 0:
            self._text_at = self._new_block()
        events += [Cited(self._text_at, citation) for citation in cited]

    def _read_part(self, part: wire.Part, events: list[Event]) -> None:
        text, signature = part.text, part.thought_signature
        if part.function_call is not None:
            self._read_call(part.function_call, signature, events)
        elif text is not None:
            kind: Literal["text", "reasoning"] = "reasoning" if part.thought else "text"
            index = self._index
            if signature:  # GEM-20: a signed part stands alone
                index = self._new_block()
                events.append(Sealed(index, signature, "thought", kind))
            elif text:
                index = self._block(kind)
            if text:
                self._text_at = self._text_at if part.thought else index
                delta = ReasoningDelta if part.thought else TextDelta
                events.append(delta(index, text))
        else:
            self._read_other(part, signature, events)

    def _read_call(self, call: wire.FunctionCall, signature: str | None, events: list[Event]) -> None:
        if self._partial is not None and call.name is None:
            add_pieces(self._partial, call.partial_args or [])
            if not call.will_continue:
                self._close_call(events)
            return
        self._close_call(events)
        index = self._new_block()
        self._called = True
        events.append(CallStarted(index, call.id or "", call.name or ""))
        if signature:
            events.append(Sealed(index, signature, "thought", "call"))
        arguments = bytes(call.args).decode("utf-8", "replace")
        if not arguments and (call.partial_args is not None or call.will_continue):
            self._partial = {}
            add_pieces(self._partial, call.partial_args or [])
        else:
            events.append(ArgumentsDelta(index, "{}" if arguments in ("", "null") else arguments))

    def _close_call(self, events: list[Event], *, whole: bool = True) -> None:
        """`whole`: all of the arguments has arrived. Half of them is no object, as on every other wire."""
        if self._partial is not None:
            arguments = json_of(self._partial)
            events.append(ArgumentsDelta(self._index, arguments if whole else arguments[:-1]))
            self._partial = None

    def _read_other(self, part: wire.Part, signature: str | None, events: list[Event]) -> None:
        """Media, programs run by Google and their results, and parts with nothing but a seal."""
        own = _own(part, signature)
        media = _media_of(part) if not own else None
        if not own and media is None and not signature:
            return
        index = self._new_block()
        if own:
            events.append(Sealed(index, json_of(own), opaque_parts.KIND, "text"))
            events.append(TextDelta(index, opaque_parts.as_words(own)))
        elif media is not None:
            events.append(MediaArrived(index, media))
        elif signature:
            events.append(Sealed(index, signature, "thought", "text"))

    def _finish(self, reason: str, events: list[Event], default: FinishReason = "stop") -> None:
        if self.over:
            return
        self._close_call(events)
        self._report_sources(events)
        self._report_usage(events)
        self.over = True
        finish = FINISHES.read(reason, default)
        if finish == "stop" and self._called:
            finish = "tool_calls"
        events.append(Finished(finish, reason))

    def _fail(self, error: SegueError, events: list[Event]) -> None:
        if not self.over:
            self._close_call(events, whole=False)
            self._report_usage(events)
        super()._fail(error, events)

    def _report_usage(self, events: list[Event]) -> None:
        if not self._counts:
            return
        try:
            usage = usage_of(wire.COUNTS.decode(self._counts), self._searches)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return
        if usage != Usage():
            events.append(UsageReported(usage))


def usage_of(counts: Mapping[str, Any], searches: int = 0) -> Usage:
    """GEM-56: thoughts are counted beside the candidate, and what Google's own tools read beside the prompt."""
    thoughts = count(counts, "thoughtsTokenCount")
    usage = counted(
        total(count(counts, "promptTokenCount"), count(counts, "toolUsePromptTokenCount")),
        total(count(counts, "candidatesTokenCount"), thoughts),
        cached=count(counts, "cachedContentTokenCount"),
        reasoning=thoughts,
        heard=_audio_in(counts.get("promptTokensDetails")),
        spoken=_audio_in(counts.get("candidatesTokensDetails")),
    )
    if usage == Usage():
        return usage
    tier = counts.get("serviceTier") or counts.get("trafficType")
    return with_price_facts(usage, tier, web_searches=searches)


def _searches_in(grounding: Any) -> int:
    """How often Google was asked for the reply."""
    asked = grounding.get("webSearchQueries") if isinstance(grounding, dict) else None
    return len(asked) if isinstance(asked, list) else 0


def _audio_in(details: Any) -> int | None:
    """Of counts by modality."""
    listed = [one for one in details if isinstance(one, dict)] if isinstance(details, list) else []
    return total(*(count(one, "tokenCount") for one in listed if one.get("modality") == "AUDIO"))


def _media_of(part: wire.Part) -> Media | None:
    held = part.inline_data
    if not isinstance(held, dict) or not isinstance(held.get("data"), str):
        return None
    mime = held.get("mimeType")
    mime = mime if isinstance(mime, str) else ""
    return Media(kind_of(mime), mime, held["data"])


def _own(part: wire.Part, signature: str | None) -> dict[str, Any]:
    """A part that is Google's own affair, as it came."""
    held = {
        "executableCode": part.executable_code,
        "codeExecutionResult": part.code_execution_result,
        "toolCall": part.tool_call,
        "toolResponse": part.tool_response,
        "fileData": part.file_data,
    }
    own = {name: value for name, value in held.items() if value is not None}
    return {**own, "thoughtSignature": signature} if own and signature else own


# The other way


def encode_reply(reply: Reply) -> bytes:
    if reply.error is not None:
        return encode_error(reply.error)[1]
    parts = [part for block in reply.message.blocks if (part := _encode_block(block)) is not None]
    candidate = {
        "content": {"parts": parts, "role": "model"},
        "finishReason": FINISHES.write(reply.finish, reply.raw_finish),
        "index": 0,
        **_sources_of(reply.message),
    }
    return wire.ENCODER.encode(
        {
            "candidates": [candidate],
            "usageMetadata": counts_of(reply.usage),
            "modelVersion": reply.model,
            "responseId": reply.id,
        }
    )


def _sources_of(message: Message) -> dict[str, Any]:
    """Sources stand in one object for the whole message; they are mostly of one text."""
    cited = [block for block in message.blocks if type(block) is Text and block.citations]
    text = cited[0].text if len(cited) == 1 else ""
    return write_metadata([citation for block in cited for citation in block.citations], text)


def _encode_block(block: Block) -> dict[str, Any] | Raw | None:
    match block:
        case Text(content, seal):
            own = opaque_parts.opaque_part(seal.payload, seal.kind) if seal is not None else None
            if own is not None:
                return own
            return _signed({"text": content}, seal) if content or seal is not None else None
        case Reasoning(thought, seal):
            return _signed({"text": thought, "thought": True}, seal)
        case ToolCall():
            call: dict[str, Any] = {"name": block.name, "args": compact_arguments(block)}
            if block.native_id or block.id:
                call["id"] = block.native_id or block.id
            return _signed({"functionCall": call}, block.seal)
        case Media():
            return media_part(block)
        case Code():
            return {"text": written_out(block).text}
        case _:  # a result is never part of a reply
            return None


def _signed(part: dict[str, Any], seal: Seal | None) -> dict[str, Any]:
    if seal is not None and seal.kind == "thought":  # seals of other kinds are of other wires
        part["thoughtSignature"] = seal.payload
    return part


def media_part(media: Media) -> dict[str, Any]:
    mime = media_type(media)
    if media.data:
        return {"inlineData": {"mimeType": mime, "data": media.data}}
    return {"fileData": {"mimeType": mime, "fileUri": media.url}}


def counts_of(usage: Usage) -> dict[str, Any]:
    thoughts = usage.reasoning_tokens
    counts = {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": None
        if usage.output_tokens is None
        else max(usage.output_tokens - (thoughts or 0), 0),
        "thoughtsTokenCount": thoughts,
        "cachedContentTokenCount": usage.cached_tokens,
        "totalTokenCount": usage.total_tokens,
        "promptTokensDetails": _by_modality(usage.input_tokens, usage.audio_input_tokens),
        "candidatesTokensDetails": _by_modality(usage.output_tokens, usage.audio_output_tokens),
    }
    return {name: value for name, value in counts.items() if value is not None}


def _by_modality(tokens: int | None, audio: int | None) -> list[dict[str, Any]] | None:
    """None if there is text only."""
    if not audio:
        return None
    text = max((tokens or 0) - audio, 0)
    return [{"modality": "TEXT", "tokenCount": text}, {"modality": "AUDIO", "tokenCount": audio}]
