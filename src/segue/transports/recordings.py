"""Exchanges written to a file as they happen, and played back from it later without any network.

One JSON object per line. Only headers that are known to hold no secret are written. The key of a request, and whatever
else looks like one, is redacted in bodies and addresses.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeAlias, final
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec
from msgspec import Struct

from segue.errors import TransportError, UsageError
from segue.text.redaction import redact_text, redact_values

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from segue.transports.transport import Transport, WireRequest, WireResponse

_HARMLESS: Final = frozenset(
    {
        "accept",
        "anthropic-beta",
        "anthropic-version",
        "content-type",
        "request-id",
        "retry-after",
        "retry-after-ms",
        "x-request-id",
    }
)


@final
class Recorded(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One exchange. Bytes that are no text are written in base64, with a mark in front."""

    method: str
    url: str
    headers: dict[str, str] = {}
    body: str = ""
    status: int = 200
    answer_headers: dict[str, str] = {}
    portions: list[tuple[float, str]] = []
    """Seconds since the one before, and what arrived."""
    broke: str = ""
    """The code of the error with which the answer broke off."""


Redact: TypeAlias = Callable[[str], str]
_SECRET: Final = re.compile("key|auth|token|secret|cookie|signature", re.IGNORECASE)
"""In the names of headers and of parts of a query that hold one."""
_MARK: Final = "base64:"
_LINE = msgspec.json.Encoder()
_READ = msgspec.json.Decoder(Recorded)


@final
class RecordingTransport:
    """Passes requests on and records the exchanges. An interrupted exchange is recorded as far as it came."""

    def __init__(self, transport: Transport, path: Path) -> None:
        self._transport = transport
        self._path = path

    @asynccontextmanager
    async def __call__(self, request: WireRequest) -> AsyncIterator[WireResponse]:
        async with self._transport(request) as answer:
            redact = _redaction(request)
            listening = _Listening(answer, redact)
            try:
                yield listening
            finally:
                line = _LINE.encode(
                    Recorded(
                        method=request.method,
                        url=redact(request.url),
                        headers=_harmless(request.headers),
                        body=_written(request.body, redact),
                        status=answer.status,
                        answer_headers=_harmless(answer.headers),
                        portions=listening.received,
                        broke=listening.broke,
                    )
                )
                with self._path.open("ab") as file:
                    file.write(line + b"\n")


@final
class _Listening:
    """A response that records what was read of it."""

    def __init__(self, answer: WireResponse, redact: Redact) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self.received: list[tuple[float, str]] = []
        self.broke = ""
        self._answer = answer
        self._redact = redact

    async def portions(self) -> AsyncIterator[bytes]:
        clock = asyncio.get_running_loop().time
        before = clock()
        try:
            async for portion in self._answer.portions():
                now = clock()
                self.received.append((round(now - before, 4), _written(portion, self._redact)))
                before = now
                yield portion
        except TransportError as error:
            self.broke = error.code
            raise

    async def read(self) -> bytes:
        return b"".join([portion async for portion in self.portions()])


@final
class ReplayingTransport:
    """Answers from a recording: each request takes the first exchange that fits it and was not taken yet."""

    def __init__(self, path: Path, *, in_real_time: bool = False) -> None:
        self._path = path
        self._in_real_time = in_real_time
        self._left = _read(path)

    @asynccontextmanager
    async def __call__(self, request: WireRequest) -> AsyncIterator[WireResponse]:
        yield _Replay(self._take(request), request.place, in_real_time=self._in_real_time)

    def _take(self, request: WireRequest) -> Recorded:
        redact = _redaction(request)
        wanted = request.method, redact(request.url), _written(request.body, redact)
        for index, recorded in enumerate(self._left):
            if (recorded.method, recorded.url, recorded.body) == wanted:
                return self._left.pop(index)
        raise TransportError(
            f"{self._path.name} holds no answer to {request.method} {request.place}.",
            code="not_recorded",
            hint="Record it again: the request has changed, or was sent once more.",
        )


@final
class _Replay:
    def __init__(self, recorded: Recorded, place: str, *, in_real_time: bool) -> None:
        self.status = recorded.status
        self.headers = recorded.answer_headers
        self._recorded = recorded
        self._place = place
        self._in_real_time = in_real_time

    async def portions(self) -> AsyncIterator[bytes]:
        for seconds, portion in self._recorded.portions:
            await asyncio.sleep(seconds if self._in_real_time else 0)
            yield _bytes(portion)
        if self._recorded.broke:
            raise TransportError(
                f"The connection to {self._place} broke off, as it did when it was recorded.",
                code=self._recorded.broke,
                hint="Try again.",
            )

    async def read(self) -> bytes:
        return b"".join([portion async for portion in self.portions()])


def _read(path: Path) -> list[Recorded]:
    try:
        return [_READ.decode(line) for line in path.read_bytes().splitlines() if line.strip()]
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(
            f"The recording {path} cannot be read: {error}.", code="bad_recording", hint="Record it again."
        ) from error


def _harmless(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items() if name.lower() in _HARMLESS}


def _redaction(request: WireRequest) -> Redact:
    """Removes from a text the secrets that a request carries, and whatever looks like a key."""
    query = parse_qsl(urlsplit(request.url).query)
    sent = [value for name, value in (*request.headers.items(), *query) if _SECRET.search(name)]
    secrets = {form for value in sent for word in value.split() for form in (word, quote(word, safe=""))}
    return lambda text: redact_text(redact_values(text, secrets))


def _written(data: bytes, redact: Redact) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _MARK + base64.b64encode(data).decode()
    return redact(text)


def _bytes(text: str) -> bytes:
    return base64.b64decode(text[len(_MARK) :]) if text.startswith(_MARK) else text.encode()
