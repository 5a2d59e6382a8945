"""A provider's batch endpoint: its requests written, and its replies read, as if they were sent one by one."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, final

from msgspec import Struct, structs

from segue.conversation.blocks import Origin
from segue.conversation.events import CallStarted, Event, Reply, UsageReported, fold
from segue.conversation.usage import Usage
from segue.providers.batches.wire_batch import BatchHandover, BatchService, Sought, WireBatch, WireLine, roomy
from segue.transcript.text_tools.react import REACT, ReActScanner
from segue.transcript.text_tools.reader import TextToolReader

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from segue.providers.adapter import ChatRequest
    from segue.providers.batches.wire_batch import WireResult
    from segue.providers.endpoint import Endpoint
    from segue.providers.provider import Provider
    from segue.transports.transport import WireResponse

BATCH: str = "batch"
"""The tier of replies that were made in a batch."""


@final
class ReplyReading(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What it takes to read the reply to a request, perhaps in another process. It is kept as JSON."""

    origin: Origin
    made_under: str = ""
    tool_names: dict[str, str] = {}
    text_tools: bool = False
    """Whether the model writes its calls as text."""
    repairs: tuple[str, ...] = ()
    """What was repaired to make the request."""


@final
class BatchAccess:
    """All requests of a batch are for one model."""

    def __init__(self, provider: Provider, service: BatchService, wire: str) -> None:
        """`wire`: the module of the service, as addresses name it."""
        self._provider = provider
        self.service = service
        self.wire = wire

    @property
    def provider(self) -> str:
        return self._provider.name

    def write(self, request: ChatRequest) -> tuple[bytes, ReplyReading]:
        """The body of a request that asks for a whole reply. Raises what keeps it from being sent."""
        whole = structs.replace(request, options=structs.replace(request.options, stream=False))
        plan = self._provider.write(whole)
        reading = ReplyReading(
            origin=plan.origin,
            made_under=plan.made_under,
            tool_names=plan.names,
            text_tools=request.policy.text_form is REACT,
            repairs=tuple(map(str, plan.repairs)),
        )
        return plan.body, reading

    def read(self, body: bytes, reading: ReplyReading) -> Reply:
        """A reply of a batch. What it failed with, if it did, is in it."""
        events: list[Event] = self._endpoint(reading.origin.model).dialect.decode_reply(body)
        if reading.text_tools:
            reader = TextToolReader(ReActScanner())
            events = [read for event in events for read in reader.feed(event)]
            events += reader.close()
        names = reading.tool_names
        if names:
            events = [
                structs.replace(event, name=names.get(event.name, event.name))
                if type(event) is CallStarted
                else event
                for event in events
            ]
        reply = fold(events, reading.origin, made_under=reading.made_under)
        return structs.replace(reply, usage=batch_usage(reply.usage))

    async def mark(self, model: str) -> str:
        return await self.service.mark(self._endpoint(model))

    async def hand_over(self, token: str, model: str, lines: Sequence[WireLine]) -> WireBatch:
        endpoint, path, name = self._provider.endpoint_of(model, stream=False)
        given = BatchHandover(token=token, model=name, path=path, lines=lines)
        return await self.service.hand_over(endpoint, given)

    async def find(self, model: str, sought: Sought) -> WireBatch | None:
        return await self.service.find(self._endpoint(model), sought)

    async def look(self, model: str, batch: str) -> WireBatch:
        return await self.service.look(self._endpoint(model), batch)

    def results(self, model: str, batch: WireBatch) -> AsyncIterator[WireResult]:
        return self.service.results(self._endpoint(model), batch)

    async def cancel(self, model: str, batch: str) -> None:
        await self.service.cancel(self._endpoint(model), batch)

    def ask(
        self, method: str, path: str, body: bytes = b"", *, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[WireResponse]:
        """A request about batches or files that somebody else has written."""
        return roomy(self._provider.endpoint).ask(method, path, body, headers=headers, whole=True)

    async def begin_upload(self, about: bytes, headers: Mapping[str, str]) -> str | None:
        """Where the bytes of a file go that is sent in pieces; None where files are not."""
        begin = self.service.begin_upload
        return None if begin is None else await begin(self._provider.endpoint, about, headers)

    def upload_piece(
        self, target: str, piece: bytes, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[WireResponse]:
        assert self.service.upload_piece is not None  # noqa: S101 - it began
        return self.service.upload_piece(self._provider.endpoint, target, piece, headers)

    def _endpoint(self, model: str) -> Endpoint:
        return self._provider.endpoint_for(model)[0]


def batch_usage(usage: Usage) -> Usage:
    """The counts of a reply that was made in a batch: most providers do not report that in the reply itself."""
    words = (usage.tier or "").split()
    if BATCH in words or usage.total_tokens is None:
        return usage
    return structs.replace(usage, tier=" ".join([BATCH, *words]))


def usage_in(events: Sequence[Event]) -> Usage:
    """The counts of a whole reply, as those of a batch."""
    usage = Usage()
    for event in events:
        if type(event) is UsageReported:
            usage = usage.updated(event.usage)
    return batch_usage(usage)


def service_of(name: str) -> BatchService | None:
    """The service of an address; None if it has no batch endpoint that we know."""
    if not name:
        return None
    service: BatchService = import_module(f"segue.providers.batches.{name}").SERVICE
    return service


def access_of(provider: Provider) -> BatchAccess | None:
    wire = provider.address.batches if provider.address is not None else ""
    service = service_of(wire)
    return BatchAccess(provider, service, wire) if service is not None else None
