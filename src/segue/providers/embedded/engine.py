"""The engine: one model in memory with one slot. Requests wait for one another; each can be stopped between tokens.

The engine blocks, so it lives in a thread of its own; its output is passed to the event loop of the caller. Its
transport carries a request not to a socket but to it: the answer is a stream of the same wire.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from http.client import HTTPConnection, HTTPException
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from segue.dialects.registry import DIALECTS
from segue.dialects.streams import sse
from segue.errors import ContextLengthError, ProviderError, TransportError, UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping

    from segue.transports.transport import WireRequest, WireResponse


Purpose: TypeAlias = Literal["chat", "embedding"]
INSTALL = "python -m pip install '.[embedded]'"
_BATCH = 64
"""Tokens of a prompt that are read in one go: a request can be stopped between two batches, so they are small."""
_KEPT_PROMPTS = 256
"""Mebibytes for the prompts of other conversations, so that coming back to one does not read it all again."""
_SECONDS = 10.0


@final
class EngineSettings(Struct, frozen=True, kw_only=True):
    """How a model is run."""

    model: str
    """The name it answers by."""
    path: Path
    context: int
    output: int
    """Tokens of a reply at most, when the request names no limit: a small model may never find an end."""
    seconds: float = 0
    """How long it may write at one reply; 0: as long as it wants."""
    threads: int = 1
    """On a busy machine a second thread makes it several times slower: the two wait for each other."""
    purpose: Purpose = "chat"


@final
class Engine:
    """Loads its model when first asked, and keeps it until `close`."""

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self._worker = ThreadPoolExecutor(1, thread_name_prefix=f"segue-{settings.model}")
        self._server: Any = None
        self._key = token_hex(16)
        self._closed = threading.Event()

    async def chat(self, body: bytes) -> AsyncGenerator[bytes, None]:
        """The pieces of a streamed reply, each a JSON object. Closing it stops the model before its next token."""
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[bytes | BaseException | None] = asyncio.Queue()
        stopped = threading.Event()

        def pass_on(piece: bytes | BaseException | None) -> bool:
            try:
                loop.call_soon_threadsafe(pieces.put_nowait, piece)
            except RuntimeError:  # the loop is gone, and whoever listened with it
                stopped.set()
            return stopped.is_set() or self._closed.is_set()

        def run() -> None:
            try:
                if not stopped.is_set():
                    self._loaded().handle_chat_completions(body, pass_on)
            except Exception as error:  # raised again in the event loop
                pass_on(error)

        job = self._worker.submit(run)
        # Also when the engine is closed before the job had its turn.
        job.add_done_callback(lambda _: pass_on(None))
        try:
            while (piece := await pieces.get()) is not None:
                if isinstance(piece, BaseException):
                    raise _failure(piece, self.settings)
                yield piece
        finally:
            stopped.set()
            job.cancel()

    async def embed(self, texts: list[str]) -> list[list[float]]:
        """One vector for each text, of length 1."""
        body = msgspec.json.encode({"input": texts, "model": self.settings.model})
        answer = msgspec.json.decode(await self._do(lambda: self._loaded().handle_embeddings(body)))
        if "error" in answer:
            raise _refusal(answer["error"], too_long="too large")
        ordered = sorted(answer["data"], key=lambda item: item["index"])
        return [item["embedding"] for item in ordered]

    async def count(self, body: bytes) -> int:
        """How many tokens the prompt of a request has. Nothing is generated, and no other request is waited for."""
        if self._server is None:
            await self._do(self._loaded)
        answer = await asyncio.to_thread(self._post, "/v1/chat/completions/input_tokens", body)
        if "error" in answer:
            raise _refusal(answer["error"])
        return int(answer["input_tokens"])

    def close(self) -> None:
        """Give the memory back. What still runs is stopped before its next token."""
        self._closed.set()
        self._worker.shutdown(wait=True, cancel_futures=True)
        self._server = None

    async def _do(self, job: Callable[[], Any]) -> Any:
        try:
            return await asyncio.wrap_future(self._worker.submit(job))
        except RuntimeError as error:
            raise _failure(error, self.settings) from error

    def _loaded(self) -> Any:
        """Runs in the worker, so that a model is loaded once."""
        if self._server is None:
            self._server = _load(self.settings, self._key)
        return self._server

    def _post(self, path: str, body: bytes) -> Any:
        """The engine counts tokens only at its own door: on loopback, behind a random key."""
        connection = HTTPConnection(urlsplit(self._server.listening_address).netloc, timeout=_SECONDS)
        headers = {"content-type": "application/json", "authorization": f"Bearer {self._key}"}
        try:
            connection.request("POST", path, body, headers)
            return msgspec.json.decode(connection.getresponse().read())
        except (OSError, HTTPException, msgspec.DecodeError) as error:
            raise TransportError(
                f"The embedded engine did not answer: {error}.", code="engine_failed"
            ) from error
        finally:
            connection.close()


def is_installed() -> bool:
    """Whether the engine could be loaded; it is not."""
    return find_spec("xllamacpp") is not None


def require_engine() -> Any:
    """The module of the engine."""
    try:
        return import_module("xllamacpp")
    except ImportError as error:
        raise UsageError(
            f"The embedded model needs the engine xllamacpp, which cannot be imported: {error}.",
            code="engine_missing",
            hint=f"Install it: {INSTALL}",
        ) from error


def _load(settings: EngineSettings, key: str) -> Any:
    engine = require_engine()
    params = engine.CommonParams()
    params.model.path = str(settings.path)
    params.model_alias = {settings.model}
    params.n_ctx = settings.context
    params.n_predict = settings.output
    params.n_parallel = 1
    params.cpuparams.n_threads = settings.threads
    params.cpuparams_batch.n_threads = settings.threads
    params.warmup = False
    params.use_jinja = True
    params.verbosity = -1
    params.cache_ram_mib = _KEPT_PROMPTS
    params.n_batch = params.n_ubatch = _BATCH
    # It opens a port whether one wants it or not.
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_threads_http = 1
    params.api_keys = [key]
    params.ui = False
    if settings.purpose == "embedding":
        params.embedding = True
        params.pooling_type = engine.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
        params.n_batch = params.n_ubatch = settings.context  # a text is read in one go, or not at all
    try:
        return engine.Server(params)
    except RuntimeError as error:
        raise ProviderError(
            f'The model "{settings.model}" cannot be loaded from {settings.path}: {error}',
            code="engine_failed",
            hint=f"Fetch it again: segue models pull embedded/{settings.model}",
        ) from error


def _failure(error: BaseException, settings: EngineSettings) -> BaseException:
    if not isinstance(error, RuntimeError):
        return error
    return ProviderError(f'The engine of "{settings.model}" failed: {error}', code="engine_failed")


def _refusal(reported: Any, too_long: str = "") -> ProviderError:
    status = reported.get("code", 500) if isinstance(reported, dict) else 500
    error = DIALECTS["llama_cpp"].decode_error(status, {}, msgspec.json.encode({"error": reported}))
    if too_long and too_long in error.message:
        return ContextLengthError(error.message, status=error.status, hint="Cut the text into shorter ones.")
    return error


_DONE = sse.encode(b"[DONE]")
_END = b'"finish_reason":"'
"""Stands in the piece that ends a reply, and nowhere else: inside of a text its quotes would be escaped."""

_READING = b'"prompt_progress"'


@final
class EngineTransport:
    """A transport to the engines of this process; `engine_for` finds the one of a model."""

    def __init__(self, engine_for: Callable[[str], Engine]) -> None:
        self._engine_for = engine_for

    @asynccontextmanager
    async def __call__(self, request: WireRequest) -> AsyncIterator[WireResponse]:
        asked = msgspec.json.decode(request.body)
        # While it reads a prompt the engine reports nothing by itself, and could not be stopped then.
        asked["return_progress"] = True
        engine = self._engine_for(asked["model"])
        pieces = engine.chat(msgspec.json.encode(asked))
        try:
            first = await anext(pieces, b"{}")
            status = _status(first)
            body = _stream(first, pieces, engine.settings.seconds) if status == 200 else _single(first)
            yield _EngineResponse(status, body)
        finally:
            await pieces.aclose()


@final
class _EngineResponse:
    def __init__(self, status: int, body: AsyncIterator[bytes]) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {"content-type": "text/event-stream"}
        self._body = body

    def portions(self) -> AsyncIterator[bytes]:
        return self._body

    async def read(self) -> bytes:
        return b"".join([portion async for portion in self._body])


async def _single(piece: bytes) -> AsyncIterator[bytes]:
    yield piece


async def _stream(first: bytes, rest: AsyncIterator[bytes], seconds: float) -> AsyncIterator[bytes]:
    """`seconds`: how long the model may write; then its reply ends as at a limit of tokens. 0: as long as it wants."""
    ended = _END in first
    limit = math.inf
    yield sse.encode(first)
    async for piece in rest:
        ended = ended or _END in piece
        if (
            seconds and limit == math.inf and _READING not in piece
        ):  # it has read the prompt, and begins to write
            limit = time.monotonic() + seconds
        yield sse.encode(piece)
        if not ended and time.monotonic() > limit:
            yield sse.encode(_cut_off(piece))
            ended = True
            break
    if ended:  # else it was cut off, and must not be taken for whole
        yield _DONE


def _cut_off(piece: bytes) -> bytes:
    """The end of a reply whose last piece this was."""
    chunk = msgspec.json.decode(piece)
    chunk.pop("prompt_progress", None)
    return msgspec.json.encode({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})


def _status(piece: bytes) -> int:
    error = msgspec.json.decode(piece).get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return (code if isinstance(code, int) else 500) if error else 200
