"""The reply of any provider, event by event, made valid on the wire of the client that asked. The mirror of render.

Whatever a client gets it sends again in its next request, and its own provider must accept that without us. So call
ids are unique in the client's history and legal there, and a seal is given to no client but its maker's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, assert_never, final

from msgspec import Struct, structs

from segue.conversation.blocks import Citation, Media, Origin, Reasoning
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
from segue.conversation.ids import mint
from segue.errors import ProtocolError, ProviderError, SegueError
from segue.transcript.blocks.citations import is_listed, source_list, suits
from segue.transcript.blocks.media import describe_in_reply, document_text
from segue.transcript.blocks.value_text import is_object_text
from segue.transcript.projection import MintedIds, offered_names
from segue.transcript.repairs import Kind, Repair
from segue.transcript.reply_call import ReplyCall
from segue.transcript.rules import media_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.conversation.events import Event, FinishReason
    from segue.transcript.client_wire import ClientRequest
    from segue.transcript.reply_call import ArgumentsForm

Visibility: TypeAlias = Literal["safe", "hide", "show"]
"""Which thoughts of other makers a client sees. `safe`: those that its own provider takes back without a seal; `hide`:
none; `show`: all, and those that need a seal get a capsule of the caller where the wire has a place for one."""

_BEHIND_THE_END = (TextDelta, ReasoningDelta, UsageReported)  # some servers name the end in every chunk
_SOURCES = -2
"""Stands for the provider's index of a text that is ours: the list of sources."""
EMPTY = "(no content)"
"""The text of a reply without any content, where the client's provider refuses such a message."""


@final
class CallIds(Struct, frozen=True, gc=False):
    """The other ids of a call: its provider's own, empty if it gave none, and our neutral one."""

    native: str
    canonical: str


@final
class Responder:
    """One reply on its way to a client.

    `maker` answers: the `home` of the client's wire, or a server that merely uses it. If the reply is not `streamed`,
    arguments are completed before they are sent.
    """

    def __init__(
        self,
        request: ClientRequest,
        maker: Origin,
        *,
        home: bool = True,
        streamed: bool = True,
        reasoning: Visibility = "safe",
        capsule: Callable[[Reasoning], str] | None = None,
    ) -> None:
        self.repairs: list[Repair] = []
        self.ids: dict[str, CallIds] = {}
        """The id of each call at the client → its other ids."""
        self._request = request
        self._client = client = request.wire
        self._maker = maker
        self._native = home and maker.dialect == client.dialect
        self._minting = MintedIds(client.rules.ids, request.nonce, request.used_ids)
        self._tools = tuple([tool for tool in request.tools if tool.kind == "custom" or tool.namespace])
        self._offered = tuple([tool.name for tool in request.tools])
        self._legal_names = offered_names(client.rules.names, self._offered).fork()
        self._minted, self._next = request.minted, 0
        plain = self._native or (client.plain_reasoning and reasoning != "hide")
        self._shows_thoughts = plain or reasoning == "show"
        self._capsule = capsule if self._shows_thoughts and not plain and client.capsule is not None else None
        self._calls_last = client.calls_last and not self._native
        self._blank_text = client.rules.blank_text or self._native
        self._arguments: ArgumentsForm = "text" if self._native else client.arguments
        if self._arguments == "object_in_pieces" and not streamed:
            self._arguments = "object"
        self._lacks_thought: Literal["none", "calls", "all"] = (
            "none" if self._native else client.rules.reasoning.required
        )
        self._started = self._over = self._finished = self._has_content = False
        self._kind: Literal["", "text", "blank", "reasoning"] = ""
        """The block that is open, with the provider's index and the client's."""
        self._inner = self.outer = -1
        self.text = self.thought = -1
        """The provider's index of the text or thought that is open, if more of it only gets the client's index."""
        self._outers: dict[int, int] = {}
        self._pieces: list[str] = []
        """Of a text that is blank so far, or of a thought that gets a capsule."""
        self._hidden: set[int] = set()
        """Blocks of which the client does not get all, as reported."""
        self._sources: list[Citation] = []
        """Those that the client's wire has no form for, until they are listed."""
        self._calls: dict[int, ReplyCall] = {}
        self._waiting: list[ReplyCall] = []
        """Whole calls, which a text may still precede."""

    def feed(self, event: Event) -> list[Event]:
        """The events for the client: mostly one, none if it does not get this or not yet."""
        # Nearly all events are more of the block that is open.
        if type(event) is TextDelta and event.index == self.text:
            return [event] if self.outer == self.text else [TextDelta(self.outer, event.text)]
        if type(event) is ReasoningDelta and event.index == self.thought:
            return [event] if self.outer == self.thought else [ReasoningDelta(self.outer, event.text)]
        if self._over or (self._finished and type(event) not in _BEHIND_THE_END):
            return []
        events: list[Event] = []
        if not self._started and type(event) is not Failed:
            self._started = True
            events.append(self._start(event))
        self._add(event, events)
        return events

    def close(self) -> list[Event]:
        """Nothing more will come. A reply without an end has failed."""
        if self._over or self._finished:
            return []
        self._over = True
        return [Failed(ProtocolError("The reply broke off before its end.", code="reply_cut_off"))]

    def _add(self, event: Event, events: list[Event]) -> None:
        match event:
            case TextDelta(index, text):
                self._add_text(index, text, events)
            case ReasoningDelta(index, text):
                self._add_thought(index, text, events)
            case CallStarted(index, native_id, name):
                self._add_call(index, native_id, name, events)
            case ArgumentsDelta(index, text):
                self._add_arguments(index, text, events)
            case Sealed():
                self._add_seal(event, events)
            case MediaArrived(index, media):
                self._add_media(index, media, events)
            case Cited(index, citation):
                self._add_citation(index, citation, events)
            case Finished():
                self._finish(event, events)
            case UsageReported():
                events.append(event)
            case Failed():
                self._over = True
                events.append(event)
            case ReplyStarted():
                pass
            case _:
                assert_never(event)

    def _start(self, event: Event) -> ReplyStarted:
        began = event if type(event) is ReplyStarted else ReplyStarted()
        own = began.id if self._native else ""
        return structs.replace(
            began,
            id=self._minting.reply_id(own, self._client.reply_prefix),
            model=self._request.model,
            tools=self._tools,
        )

    # Texts, thoughts, media

    def _add_text(self, index: int, text: str, events: list[Event]) -> None:
        if not text:
            return
        blank = not self._blank_text and text.isspace()
        if (self._kind, self._inner) == ("blank", index):
            self._pieces.append(text)
            if blank:
                return
            text = "".join(self._pieces)
        elif (self._kind, self._inner) != ("text", index):
            self._end_block(events)
            if self._is_late(index, "text_dropped", blank=blank):
                return
            if blank:
                self._kind, self._inner, self._pieces = "blank", index, [text]
                return
        if self._kind != "text":
            self._begin("text", index, events)
        events.append(TextDelta(self.outer, text))

    def _add_thought(self, index: int, text: str, events: list[Event]) -> None:
        if not text:
            return
        if not self._shows_thoughts:
            self._hide(index, "reasoning_dropped", "the client's provider takes none of another maker back")
            return
        if (self._kind, self._inner) != ("reasoning", index):
            self._end_block(events)
            if self._is_late(index, "reasoning_dropped"):
                return
            self._begin("reasoning", index, events)
            self._pieces = []
        self._pieces.append(text)
        events.append(ReasoningDelta(self.outer, text))

    def _add_media(self, index: int, media: Media, events: list[Event]) -> None:
        self._end_block(events)
        self._has_content |= bool(self._client.media) or not self._native
        mime = media_type(media)
        allowed = self._client.media
        if self._native or (media.data and (mime in allowed or f"{mime.partition('/')[0]}/*" in allowed)):
            events.append(MediaArrived(self._new(), media))
            return
        if not self._is_late(index, "media_described"):
            kind: Kind = "media_described" if document_text(media) is None else "document_as_text"
            self._repair(kind, index, "the client's wire has no place for it")
            events.append(TextDelta(self._new(), describe_in_reply(media)))

    def _add_citation(self, index: int, citation: Citation, events: list[Event]) -> None:
        own = citation.dialect == self._client.dialect
        if not own and not suits(citation, self._client.cites):
            if is_listed(citation):
                self._sources.append(citation)
            return
        if index not in self._outers:
            self._end_block(events)
            if self._is_late(index, "citations_dropped"):
                return
            self._begin("text", index, events)
        events.append(Cited(self._outers[index], citation))

    def _list_sources(self, events: list[Event]) -> None:
        """Write the sources that have no other form here, at the end of the text, before the calls."""
        words, self._sources = source_list(self._sources), []
        if not words:
            return
        if self._request.structured:
            self._repair("citations_dropped", self._next, "the client reads the text as JSON")
            return
        if self._kind != "text":
            self._end_block(events)
            if self._is_late(_SOURCES, "citations_dropped"):
                return
            self._begin("text", _SOURCES, events)
        self._repair("citations_as_text", self.outer)
        events.append(TextDelta(self.outer, f"\n\n{words}"))

    def _begin(self, kind: Literal["text", "reasoning"], index: int, events: list[Event]) -> None:
        if kind == "reasoning":
            self._lacks_thought = "none"
        elif self._lacks_thought == "all":
            self._fill_thought(events)
        self._has_content |= kind == "text"
        self._kind, self._inner = kind, index
        self.outer = self._outers[index] = self._new()
        if kind == "text":
            self.text = index
        elif self._capsule is None:
            self.thought = index

    def _end_block(self, events: list[Event]) -> None:
        if self._kind == "blank":
            self._repair("blank_text", self._inner)
        elif self._kind == "reasoning" and self._capsule is not None and self._client.capsule is not None:
            payload = self._capsule(Reasoning("".join(self._pieces)))
            events.append(Sealed(self.outer, payload, self._client.capsule))
        self._kind, self._inner = "", -1
        self.text = self.thought = -1

    def _new(self) -> int:
        self._next += 1
        return self._next - 1

    def _is_late(self, index: int, kind: Kind, *, blank: bool = False) -> bool:
        """Whether a block comes behind a call where nothing may. It is then not shown: the call cannot be taken back."""
        if not self._calls_last or not any(call.sent for call in self._calls.values()):
            return False
        if not blank:
            self._hide(index, kind, "it came behind a call that was already sent")
        return True

    def _fill_thought(self, events: list[Event]) -> None:
        self._lacks_thought = "none"
        self._repair("reasoning_filled", self._next)
        events.append(ReasoningDelta(self._new(), self._client.rules.reasoning.filler))

    # Seals

    def _add_seal(self, seal: Sealed, events: list[Event]) -> None:
        index = seal.index
        if seal.block == "call" or index in self._calls:
            call = self._call(index)
            if not self._native:
                self._hide(index, "seal_dropped", "another maker's")
            elif call.sent:
                events.append(structs.replace(seal, index=call.index))
            else:
                call.seal = seal
        elif self._native:
            self._has_content = True
            if index not in self._outers:
                self._end_block(events)
                self._begin("reasoning" if seal.block == "reasoning" else "text", index, events)
            events.append(structs.replace(seal, index=self._outers[index]))
        elif seal.block == "text" and seal.kind == "encrypted":
            self._hide(index, "item_dropped", f"only {self._maker.dialect} knows it; text about it stays")
        else:
            self._hide(index, "seal_dropped", "another maker's")

    # Calls

    def _call(self, index: int) -> ReplyCall:
        call = self._calls.get(index)
        if call is None:
            call = self._calls[index] = ReplyCall(mint(self._minted), self._arguments)
            self._minted += 1
        return call

    def _add_call(self, index: int, native_id: str, name: str, events: list[Event]) -> None:
        call = self._call(index)
        call.native, call.name = call.native or native_id, call.name or name
        if call.sent:
            self.ids[call.sent] = CallIds(call.native, call.canonical)
        elif call.name and not self._calls_last:
            self._send(call, events)

    def _add_arguments(self, index: int, text: str, events: list[Event]) -> None:
        if not text:
            return
        call = self._call(index)
        more = call.add(text)
        if more:
            events.append(ArgumentsDelta(call.index, more))
        elif call.sent or call in self._waiting:
            return
        elif self._calls_last and is_object_text(text):
            self._waiting.append(call)
        else:
            self._release(events)
            self._send(call, events)

    def _release(self, events: list[Event]) -> None:
        for call in self._waiting:
            self._send(call, events)
        self._waiting.clear()

    def _send(self, call: ReplyCall, events: list[Event]) -> None:
        if self._sources:
            self._list_sources(events)
        self._end_block(events)
        if self._lacks_thought != "none":
            self._fill_thought(events)
        name = self._request.names.get(call.name, call.name)
        if name not in self._offered and not self._legal_names.accepts(name):
            name = self._legal_names.project(name)
            self._repair_call("name_replaced", call)
        first = not self.ids
        self._has_content = True
        call.index = self._new()
        call.sent, kept = self._minting.call_id(call.native if self._native else "", name)
        self.ids[call.sent] = CallIds(call.native, call.canonical)
        if self._native and call.native and not kept:
            self._repair_call("id_replaced", call)
        events.append(CallStarted(call.index, call.sent, name))
        stand_in = self._client.rules.reasoning.call_seal
        if call.seal is not None:
            events.append(structs.replace(call.seal, index=call.index))
        elif first and stand_in and not self._native:
            self._repair_call("call_seal_filled", call)
            events.append(Sealed(call.index, stand_in, "thought", "call"))
        if more := call.pass_on():
            events.append(ArgumentsDelta(call.index, more))

    # The end

    def _finish(self, end: Finished, events: list[Event]) -> None:
        reason, raw, own = end.reason, end.raw, end.raw if self._native else ""
        if self._sources:
            self._list_sources(events)
        self._end_block(events)
        for call in self._calls.values():
            if not call.sent and call not in self._waiting:
                self._waiting.append(call)
        self._release(events)
        if reason in ("stop", "tool_calls"):
            reason = "tool_calls" if self._calls else "stop"
        failure = self._settle_arguments(reason, events)
        if (reason == "error" and not own) or (reason == "cancelled" and not self._client.cancelled):
            failure = ProviderError(
                f'The provider ended its reply with "{raw or reason}".', code=raw or reason
            )
        if failure is not None:
            self._over = True
            events.append(Failed(failure))
            return
        if not (self._has_content or self._client.empty):
            self._repair("reply_filled", 0)
            events.append(TextDelta(self._new(), EMPTY))
        self._finished = True
        events.append(structs.replace(end, reason=reason, raw=own))

    def _settle_arguments(self, finish: FinishReason, events: list[Event]) -> SegueError | None:
        """Complete the arguments of all calls; the failure if some were sent that no client can read."""
        for call in self._calls.values():
            try:
                rest, wrapped = call.settle(finish)
            except ProtocolError as error:
                return error
            if wrapped:
                self._repair_call("arguments_wrapped", call)
            if rest:
                events.append(ArgumentsDelta(call.index, rest))
        return None

    # Repairs

    def _hide(self, index: int, kind: Kind, why: str) -> None:
        if index not in self._hidden:
            self._hidden.add(index)
            self._repair(kind, index, why)

    def _repair(self, kind: Kind, index: int, why: str = "") -> None:
        self.repairs.append(Repair(kind, self._client.dialect, f"reply.blocks[{index}]", decision=why))

    def _repair_call(self, kind: Kind, call: ReplyCall) -> None:
        ids = (call.canonical,), ((call.sent,) if call.sent else ())
        self.repairs.append(Repair(kind, self._client.dialect, "reply", *ids))
