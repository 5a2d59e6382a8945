"""What the batch endpoints of all wires have in common: requests are written, and replies read, as if they were sent
one by one; a batch, a result, a service; and small readers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from importlib import import_module
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, final

import msgspec
from msgspec import Struct, structs

from segue.conversation.blocks import Origin
from segue.conversation.events import CallStarted, Event, Reply, UsageReported, fold
from segue.conversation.usage import Usage
from segue.errors import ProtocolError, ProviderError
from segue.providers.endpoint import Endpoint
from segue.transcript.text_tools.react import REACT, ReActScanner
from segue.transcript.text_tools.reader import TextToolReader
from segue.transports.transport import ReplyLimits, WireResponse

if TYPE_CHECKING:
    from segue.providers.adapter import ChatRequest
    from segue.providers.provider import Provider


BatchState: TypeAlias = Literal["running", "ended", "refused"]
"""`refused`: the provider found the batch wrong as a whole, and has done nothing of it."""
Outcome: TypeAlias = Literal["succeeded", "failed", "expired", "cancelled"]
_RESULT_BYTES: Final = 4 << 30
"""Of all results of a batch, which are read line by line."""
_LINE_BYTES: Final = 64 << 20


@final
class WireLine(NamedTuple):
    """One request of a batch: our name of it, which comes back with its result, and its body."""

    name: str
    body: bytes


@final
class RefusedLine(Struct, frozen=True):
    """A request for which a whole batch was refused."""

    place: int
    """From 0."""
    code: str
    message: str


@final
class WireBatch(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A batch as its provider describes it. It is kept as JSON."""

    id: str
    state: BatchState = "running"
    total: int = 0
    done: int = 0
    """Requests that have been answered, as far as the provider reports it before the end."""
    failed: int = 0
    files: tuple[str, ...] = ()
    """Where results are, if they are in files."""
    expires: float | None = None
    """Seconds since 1970."""
    missing: Outcome = "failed"
    """What became of requests without a result."""
    problem: str = ""
    """Why the batch was refused as a whole."""
    problem_code: str = ""
    refused: tuple[RefusedLine, ...] = ()


@final
class WireResult(Struct, frozen=True, kw_only=True):
    """The result of one request, by the name that we gave it."""

    name: str
    outcome: Outcome
    body: bytes = b""
    """The reply, as its endpoint sends it whole."""
    error: ProviderError | None = None


@final
class BatchHandover(Struct, frozen=True, kw_only=True):
    """What is handed over as one batch."""

    token: str
    """Ours, unlike any other. It is found again at the provider, in what describes the batch or in the names of its requests."""
    model: str
    path: str
    """Of a single request, from the base URL on."""
    lines: Sequence[WireLine]


@final
class Sought(Struct, frozen=True, kw_only=True):
    """A batch that was perhaps handed over before the process ended."""

    token: str
    mark: str
    """What the service had as its mark before it was handed over."""
    count: int
    others: frozenset[str] = frozenset()
    """Ids of batches that are known to be something else."""


@final
class BatchService(Struct, frozen=True, kw_only=True):
    """The batch endpoint of one wire."""

    most_requests: int
    most_bytes: int
    """Of all bodies together."""
    mark: Callable[[Endpoint], Awaitable[str]]
    """Where the list of batches ends now. Raises an error with status 404 or 405 where there is no such endpoint."""
    hand_over: Callable[[Endpoint, BatchHandover], Awaitable[WireBatch]]
    find: Callable[[Endpoint, Sought], Awaitable[WireBatch | None]]
    proves_itself: bool = True
    """Whether what `find` returns is certainly ours; else only the names in its results show that."""
    look: Callable[[Endpoint, str], Awaitable[WireBatch]]
    results: Callable[[Endpoint, WireBatch], AsyncIterator[WireResult]]
    cancel: Callable[[Endpoint, str], Awaitable[None]]
    begin_upload: Callable[[Endpoint, bytes, Mapping[str, str]], Awaitable[str]] | None = None
    """Where the bytes of a file go, on wires that take them in pieces; by a description of the file, and headers."""
    upload_piece: (
        Callable[[Endpoint, str, bytes, Mapping[str, str]], AbstractAsyncContextManager[WireResponse]] | None
    ) = None


def roomy(endpoint: Endpoint) -> Endpoint:
    """Where answers may be as large as all results of a batch."""
    return structs.replace(endpoint, limits=ReplyLimits(body_bytes=_RESULT_BYTES, line_bytes=_LINE_BYTES))


@asynccontextmanager
async def result_lines(endpoint: Endpoint, path: str) -> AsyncIterator[AsyncIterator[bytes]]:
    """The lines of a file of results, as they arrive."""
    async with roomy(endpoint).ask("GET", path, whole=True) as answer:
        yield _lines(answer)


async def _lines(answer: WireResponse) -> AsyncIterator[bytes]:
    rest = b""
    async for portion in answer.portions():
        *whole, rest = (rest + portion).split(b"\n")
        for line in whole:
            if line.strip():
                yield line
        if len(rest) > _LINE_BYTES:
            raise ProtocolError("A line of the results is too long.", code="line_too_long")
    if rest.strip():
        yield rest


async def upload_lines(endpoint: Endpoint, name: str, lines: Sequence[bytes]) -> str:
    """Upload a file of requests, as OpenAI's wire and those like it take it; its id."""
    boundary = f"segue-{token_hex(16)}"
    head = (
        f'--{boundary}\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        f'--{boundary}\r\ncontent-disposition: form-data; name="file"; filename="{name}"\r\n'
        "content-type: application/jsonl\r\n\r\n"
    )
    body = b"".join((head.encode(), b"\n".join(lines), b"\n", f"\r\n--{boundary}--\r\n".encode()))
    headers = {"content-type": f"multipart/form-data; boundary={boundary}"}
    async with endpoint.ask("POST", "/files", body, headers=headers, whole=True) as answer:
        received = await answer.read()
    return msgspec.json.decode(received, type=_Named).id


class _Named(Struct):
    id: str


def raw_line(fields: Mapping[str, Any], body_field: str, body: bytes) -> bytes:
    """A line of JSON whose body is not parsed again."""
    return msgspec.json.encode({**fields, body_field: msgspec.Raw(body)})


def error_of(endpoint: Endpoint, status: int, body: Any) -> ProviderError:
    """The error of one request, read as if it had been sent alone."""
    written = body.encode() if isinstance(body, str) else msgspec.json.encode(body)
    error = endpoint.dialect.decode_error(status, {}, written)
    endpoint.redact(error)
    return endpoint.named(error)


def seconds_of(time: Any) -> float | None:
    """A time as ISO 8601 or in seconds; None if it is neither."""
    if isinstance(time, int | float):
        return float(time)
    try:
        return datetime.fromisoformat(time).timestamp()
    except (TypeError, ValueError):
        return None


def count(value: Any) -> int:
    """A number, also where it is written as a text."""
    try:
        return int(value or 0)
    except (TypeError, ValueError):
        return 0


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
