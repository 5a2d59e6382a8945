"""An address with a key: sends requests there, reads JSON answers as typed values, and failures with its dialect."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, final
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct, structs

from segue.dialects.dialect import Dialect
from segue.errors import ProtocolError, ProviderError, SegueError
from segue.text.redaction import redact_values
from segue.transports.reply_meter import MeteredResponse
from segue.transports.transport import (
    ReplyLimits,
    Timeouts,
    Transport,
    WireRequest,
    WireResponse,
    shown_address,
)

if TYPE_CHECKING:
    from types import TracebackType


E = TypeVar("E", bound=SegueError)
Sign: TypeAlias = Callable[[str, str, Mapping[str, str], bytes], Mapping[str, str]]
"""Method, address, headers and body of a request → the headers that sign it."""


NoteHeaders: TypeAlias = "Callable[[Mapping[str, str], ProviderError | None], None]"
"""Receives the headers of an answer, and the error in it if it is one."""


async def _ready() -> None:
    """Nothing to wait for."""


@final
class Endpoint(Struct, frozen=True, kw_only=True):
    """Where a provider is reached and how. `headers` gives the key, anew for each request, and is never shown."""

    provider: str
    dialect: Dialect
    base_url: str
    """Without a slash at its end."""
    headers: Callable[[], Mapping[str, str]] = dict
    ready: Callable[[], Awaitable[None]] = _ready
    """Awaited before `headers` is called: a key may come from a command or from the system's store."""
    sign: Sign | None = None
    """The headers that sign a request, where that is wanted."""
    transport: Transport
    timeouts: Timeouts = Timeouts()
    limits: ReplyLimits = ReplyLimits()
    query: Mapping[str, str] = {}
    """Added to every address, for instance an API version."""
    services: str = ""
    """Whose lists of models and token counts it has, if not those of its dialect."""
    models_path: str = ""
    """Of its list of models, from the base URL on, if not the wire's; `-`: it lists none."""

    errors_by_header: Mapping[str, Dialect] = {}
    """Whose errors a cloud answers with, marked by this header, before it asks the host of the wire."""

    def __repr__(self) -> str:
        return f"Endpoint({self.provider} at {self.base_url})"

    def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        timeouts: Timeouts | None = None,
        headers: Mapping[str, str] | None = None,
        whole: bool = False,
        note: NoteHeaders | None = None,
    ) -> AbstractAsyncContextManager[MeteredResponse]:
        """Send a request. A status other than 2xx is raised as the error that the dialect reads in it.

        `whole`: for a reply that is not streamed, which may be waited for longer. `note`: called with the headers of the answer.
        """
        waits = timeouts or self.timeouts
        return _Exchange(self, method, path, body, waits, headers or {}, whole=whole, note=note)

    async def error_in(self, answer: MeteredResponse, sent: Mapping[str, str]) -> ProviderError:
        """The error in an answer, without what was sent as a key or signature."""
        marked = (dialect for name, dialect in self.errors_by_header.items() if name in answer.headers)
        dialect = next(marked, self.dialect)
        error = dialect.decode_error(answer.status, answer.headers, await answer.read_error())
        if error.retry_after is None:
            error.retry_after = _seconds_until(answer.headers.get("retry-after", ""))
        self.redact(error, sent)
        return error

    async def json(
        self, method: str, path: str, body: object = None, *, timeouts: Timeouts | None = None
    ) -> Any:
        """A request and its whole answer, both JSON."""
        sent = b"" if body is None else msgspec.json.encode(body)
        async with self.ask(method, path, sent, timeouts=timeouts) as answer:
            received = await answer.read()
        try:
            return msgspec.json.decode(received or b"null")
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise self.named(
                ProtocolError(
                    f"{self.provider} answered {method} {path} with something that is not JSON: {error}.",
                    code="not_json",
                    hint=f"Check that {shown_address(self.base_url)} is the address of its API.",
                )
            ) from error

    def url(self, path: str) -> str:
        """The whole address of a path. Keys go into headers, but a query of one's own may hold anything."""
        base = self.base_url
        while path.startswith("/../"):
            base, path = base.rpartition("/")[0], path[3:]
        if not self.query:
            return base + path
        return f"{base}{path}{'&' if '?' in path else '?'}{urlencode(self.query)}"

    def named(self, error: E) -> E:
        """The error, which now knows who was asked, and where."""
        error.provider, error.address = self.provider, shown_address(self.base_url)
        return error

    def redact(self, error: SegueError, sent: Mapping[str, str] | None = None) -> None:
        """Take the key out of an error: some servers repeat what they were sent, AWS all that was signed. `sent`: the headers,
        if they are at hand; to find them anew may take long."""
        try:
            held = {**self.query, **(self.headers() if sent is None else sent)}
        except Exception:  # without a key there is none to repeat
            return
        secrets = [
            value.removeprefix("Bearer ") for name, value in held.items() if not name.endswith("-version")
        ]
        error.message = redact_values(error.message, secrets)
        error.args = (error.message,)
        if isinstance(error, ProviderError):
            body = error.body.decode("utf-8", "surrogateescape")
            error.body = redact_values(body, secrets).encode("utf-8", "surrogateescape")
            error.members = _redacted(error.members, secrets)

    def at(self, base_url: str) -> Endpoint:
        return structs.replace(self, base_url=base_url.rstrip("/"))


@final
class _Exchange:
    """One request, whose answer is closed when its context is left."""

    def __init__(
        self,
        endpoint: Endpoint,
        method: str,
        path: str,
        body: bytes,
        timeouts: Timeouts,
        headers: Mapping[str, str],
        *,
        whole: bool,
        note: NoteHeaders | None,
    ) -> None:
        self._endpoint = endpoint
        self._request = method, path, body
        self._timeouts = timeouts
        self._headers = headers
        self._whole = whole
        self._note = note
        self._carried: AbstractAsyncContextManager[WireResponse]

    async def __aenter__(self) -> MeteredResponse:
        endpoint, (method, path, body) = self._endpoint, self._request
        try:
            await endpoint.ready()
            own = dict(endpoint.headers())
            headers = {"content-type": "application/json", **own, **self._headers}
            if endpoint.sign is not None:
                signature = endpoint.sign(method, endpoint.url(path), headers, body)
                own |= signature
                headers |= signature
        except SegueError as error:  # there is no key
            error.unbilled = True
            raise
        request = WireRequest(
            method=method,
            url=endpoint.url(path),
            headers=headers,
            body=body,
            timeouts=self._timeouts,
            whole=self._whole,
        )
        self._carried = endpoint.transport(request)
        refused = False
        try:
            answer = MeteredResponse(await self._carried.__aenter__(), request, endpoint.limits)
            refused = not 200 <= answer.status < 300
            if refused:
                async with AsyncExitStack() as opened:
                    opened.push_async_exit(self._carried)
                    error_in_answer = await endpoint.error_in(answer, own)
                    if self._note is not None:
                        self._note(answer.headers, error_in_answer)
                    raise error_in_answer
        except SegueError as error:
            error.unbilled = error.unbilled or refused
            endpoint.named(error)
            raise
        if self._note is not None:
            self._note(answer.headers, None)
        return answer

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if isinstance(error, SegueError):  # what went wrong while the answer was read
            self._endpoint.named(error)
        return await self._carried.__aexit__(kind, error, trace)


def _redacted(value: Any, secrets: Sequence[str]) -> Any:
    """A JSON value without these secrets, in names and in texts."""
    if isinstance(value, str):
        return redact_values(value, secrets)
    if isinstance(value, Mapping):
        return {redact_values(name, secrets): _redacted(held, secrets) for name, held in value.items()}
    return [_redacted(held, secrets) for held in value] if isinstance(value, list) else value


def _seconds_until(date: str) -> float | None:
    """How long to wait for a date as HTTP writes it; the dialects, which have no clock, understand seconds only."""
    if not date:
        return None
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - slow to load, and hardly anybody sends a date

    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max((moment - datetime.now(UTC)).total_seconds(), 0.0)


T = TypeVar("T")


async def request_json(endpoint: Endpoint, method: str, path: str, kind: type[T], body: object = None) -> T:
    """Send a request; its whole response must be of this type."""
    sent = b"" if body is None else msgspec.json.encode(body)
    async with endpoint.ask(method, path, sent) as answer:
        received = await answer.read()
    try:
        return msgspec.json.decode(received, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise unreadable(endpoint, f"{method} {path}", str(error)) from error


def unreadable(endpoint: Endpoint, what: str, why: str) -> ProtocolError:
    """The error for a response that the API does not document."""
    return endpoint.named(
        ProtocolError(
            f"{endpoint.provider} answered {what} with something that is not in its API: {why}.",
            code="unexpected_answer",
            hint=f"Check that {shown_address(endpoint.base_url)} is the address of its API.",
        )
    )


def in_path(model: str) -> str:
    """A model's name as a part of an address; a vendor's path stays one."""
    return quote(model, safe="/:@")


def whole(value: Any) -> int | None:
    """A positive whole number; None if the server sent anything else."""
    return value if type(value) is int and value > 0 else None


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def moment(seconds: Any) -> str:
    """A UNIX time as ISO 8601."""
    if type(seconds) not in (int, float) or not 0 < seconds < 1e11:
        return ""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
