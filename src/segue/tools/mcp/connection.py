"""One MCP server while it is connected, the results of its calls, and what it offers.

The client must be entered and left by the same task, so every connection has an owner: a task that opens it, hands it
out, and closes it when asked to or when the server is gone. Calls are made by whoever needs them. A connection that
was lost is made anew for the next call; a call that was under way is never sent twice.

What a server offers is kept on disk: whoever calls none of its tools need not start it. A list is found by the
configuration of its server, with the programs and files that its command names. It holds for a day, and whenever the
server is started and reports another version it is read anew.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import shutil
import time
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from msgspec import Struct

from segue.conversation.blocks import Media
from segue.conversation.json_safe import encodable
from segue.errors import SegueError, TransportError, UsageError
from segue.system.private_files import write_private
from segue.system.worker_threads import in_thread
from segue.text.redaction import redact_known, remember_named_secrets
from segue.tools.definition import Output
from segue.tools.mcp.config import HttpAddress, ServerConfig, StdioAddress
from segue.tools.mcp.questions import answer_server
from segue.tools.mcp.stdio import StderrTail, server_environment, stdio_transport
from segue.tools.sandbox.sandbox import without_sandbox
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from typing import TextIO

    from mcp import Client
    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import CallToolResult, ContentBlock
    from mcp_types import Tool as ListedTool

    from segue.tools.definition import Context
    from segue.tools.mcp.config import ServerConfig
    from segue.tools.mcp.questions import AnswerQuestion
    from segue.tools.sandbox.sandbox import Sandbox


def output_of_result(result: CallToolResult) -> Output:
    """Texts as one text, pictures and sounds as media; structured data that no text holds follows."""
    texts: list[str] = []
    media: list[Media] = []
    for block in result.content:
        content = _content_of(block)
        if isinstance(content, Media):
            media.append(content)
        else:
            texts.append(encodable(content))
    text = "\n".join(texts)
    if result.is_error:
        return Output(media=tuple(media), error=text or "The tool failed without a message.")
    if result.structured_content is None or _texts_hold(texts, result.structured_content):
        return Output(text, tuple(media))
    data = json_of(result.structured_content)
    return Output(f"{text}\n\n{data}" if text else result.structured_content, tuple(media))


def _content_of(block: ContentBlock) -> str | Media:
    if block.type == "text":
        return block.text
    if block.type == "image":
        return Media("image", block.mime_type, block.data)
    if block.type == "audio":
        return Media("audio", block.mime_type, block.data)
    if block.type == "resource_link":
        parts = (block.title or block.name, f"<{block.uri}>", block.mime_type, block.description)
        return " ".join(part for part in parts if part)
    return _resource(block.resource)


def _resource(resource: Any) -> str | Media:
    text = getattr(resource, "text", None)
    if isinstance(text, str):
        return text
    mime = resource.mime_type or "application/octet-stream"
    name = str(resource.uri).rpartition("/")[2]
    if mime.startswith("image/"):
        return Media("image", mime, resource.blob, name=name)
    if mime.startswith("audio/"):
        return Media("audio", mime, resource.blob, name=name)
    if mime == "application/pdf":
        return Media("document", mime, resource.blob, name=name)
    return f"<{resource.uri}> {mime}, {len(resource.blob) * 3 // 4} bytes"


def _texts_hold(texts: list[str], data: Any) -> bool:
    """Whether the texts hold the data already: most servers send both, a list as one text for each of its members."""
    bare = next(iter(data.values())) if isinstance(data, dict) and len(data) == 1 else data
    if len(texts) == 1 and (_means(texts[0], data) or _means(texts[0], bare)):
        return True
    return isinstance(bare, list) and len(bare) == len(texts) and all(map(_means, texts, bare))


def _means(text: str, value: Any) -> bool:
    if text == value:
        return True
    try:
        return bool(json.loads(text) == value)
    except (ValueError, RecursionError):
        return False


MAX_AGE: Final = 24 * 3600.0
"""Seconds: a server at an address may get new tools at any time."""
MAX_BYTES: Final = 4_000_000


@final
class McpTool(Struct, frozen=True, kw_only=True):
    """One tool as its server describes it."""

    name: str
    description: str = ""
    input_schema: dict[str, Any] = {}
    read_only: bool = False


@final
class ToolList(Struct, frozen=True, kw_only=True):
    """All tools of a server at one moment."""

    tools: tuple[McpTool, ...]
    version: str = ""
    """Name and version of the server, as it reports them."""
    at: float = 0.0


@final
class ToolListCache:
    """A folder with one file per server. What cannot be read or written is as if it were not there."""

    def __init__(self, folder: Path | None) -> None:
        """None keeps nothing."""
        self._folder = folder

    def read(self, server: ServerConfig) -> ToolList | None:
        """None if there is no list that still holds."""
        if self._folder is None:
            return None
        try:
            data = self._file(self._folder, server).read_bytes()
            found = msgspec.json.decode(data, type=ToolList) if len(data) <= MAX_BYTES else None
        except (OSError, ValueError):
            return None
        return found if found is not None and 0 <= time.time() - found.at < MAX_AGE else None

    def write(self, server: ServerConfig, found: ToolList) -> None:
        if self._folder is None:
            return
        try:
            # A server may repeat what it was given.
            text = msgspec.json.encode(redact_known(msgspec.json.decode(msgspec.json.encode(found)))).decode()
            if len(text) <= MAX_BYTES:
                write_private(self._file(self._folder, server), text)
        except (OSError, ValueError):
            return

    def forget(self, server: ServerConfig) -> None:
        if self._folder is not None:
            with suppress(OSError):
                self._file(self._folder, server).unlink(missing_ok=True)

    def _file(self, folder: Path, server: ServerConfig) -> Path:
        parts = msgspec.json.encode([server.name, server.address, _programs(server)], order="sorted")
        # Slow on purpose: the configuration may hold secrets, and the name of the file must not help to guess them.
        digest = hashlib.scrypt(parts, salt=b"segue mcp tools", n=2**11, r=8, p=1, dklen=20)
        return folder / f"{digest.hex()}.json"


def _programs(server: ServerConfig) -> list[tuple[str, int, int]]:
    """Size and time of the program and of the files among its arguments: a new one may have other tools."""
    address = server.address
    if not isinstance(address, StdioAddress):
        return []
    start = Path(address.cwd or ".")
    found: list[tuple[str, int, int]] = []
    for place in (shutil.which(address.command) or address.command, *address.args):
        try:
            state = (start / place).stat()
        except (OSError, ValueError):
            continue
        found.append((place, state.st_size, state.st_mtime_ns))
    return found


CLOSE_SECONDS: Final = 10.0
_CHILD_HINT: Final = "Check its command."
_SANDBOX_HINT: Final = (
    'It runs in the sandbox: "paths": ["~/.aws"] in its entry shows it more, "sandbox": false takes it out.'
)
MAX_PAGES: Final = 100
MAX_WHY: Final = 300
_TIMED_OUT: Final = -32001
# The SDK has no codes of its own for these: servers use the same ones for whatever they like.
_LOST: Final = ("Connection closed", "SSE stream")
_UNKNOWN_SESSION: Final = "Session terminated"
"""The server refused a request because it does not know its session, as after a restart. Nothing has run."""
_REFUSED: Final = "Server returned an error response"
"""Any other bad status. Some servers mean an unknown session by it as well, but the call may have run."""


class _OpenConnection:
    """A connection and its owner."""

    def __init__(self) -> None:
        self.client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self.over = asyncio.Event()
        self.stderr = StderrTail()
        self.owner: asyncio.Task[None] | None = None

    @property
    def is_usable(self) -> bool:
        return not self.over.is_set() and self.owner is not None and not self.owner.done()


class Connection:
    """A server that is connected to when it is first needed, and again after it was lost."""

    def __init__(
        self,
        server: ServerConfig,
        ask: Callable[[], AnswerQuestion | None] = lambda: None,
        sandbox: Sandbox | None = None,
    ) -> None:
        """`ask`: who can ask the user, at the moment of a question; None if nobody can. `sandbox`: what a child runs in."""
        self.server = server
        self._sandbox = without_sandbox(".") if sandbox is None else sandbox
        self._ask = ask
        remember_named_secrets(server.given)
        self._open: _OpenConnection | None = None
        self._connecting = asyncio.Lock()

    async def version(self) -> str:
        """Name and version of the server, as it reports them; "" if it does not."""
        info = (await self._opened()).client.result().server_info
        return "" if info is None else f"{info.name} {info.version}"

    async def tools(self) -> list[McpTool]:
        """All tools of the server, page by page."""
        opened = await self._opened()
        found: list[ListedTool] = []
        cursors: set[str] = set()
        cursor: str | None = None
        try:
            for _ in range(MAX_PAGES):
                listing = opened.client.result().list_tools(cursor=cursor)
                page = await asyncio.wait_for(listing, self.server.start_seconds)
                found += page.tools
                cursor = page.next_cursor
                if not cursor or cursor in cursors:
                    break
                cursors.add(cursor)
        except TimeoutError as error:
            late = f"it did not answer within {self.server.start_seconds:g} seconds"
            raise self._failed("did not list its tools", late, opened) from error
        except Exception as error:
            raise self._failed("did not list its tools", _why(error), opened) from error
        return self._distinct(found, opened)

    def _distinct(self, found: list[ListedTool], opened: _OpenConnection) -> list[McpTool]:
        """A tool that is listed twice counts once; nobody knows which of two different ones a call would run."""
        tools: dict[str, McpTool] = {}
        for tool in map(_as_listed, found):
            if tools.setdefault(tool.name, tool) != tool:
                raise self._failed("cannot be used", f'it has two tools with the name "{tool.name}"', opened)
        return list(tools.values())

    async def call(self, name: str, arguments: dict[str, Any], context: Context) -> Output:
        """Call a tool. A refusal of the server is an error result; a lost connection is raised."""
        try:
            return await self._call(await self._opened(), name, arguments, context)
        except _NotRunError:
            return await self._call(await self._opened(), name, arguments, context)

    async def close(self) -> None:
        """End the connection, or the attempt to make one."""
        opened, self._open = self._open, None
        if opened is None or opened.owner is None:
            return
        opened.over.set()
        if opened.client.done():
            await asyncio.wait([opened.owner], timeout=CLOSE_SECONDS)
        if not opened.owner.done():
            opened.owner.cancel()
            await asyncio.wait([opened.owner], timeout=CLOSE_SECONDS)

    async def _call(
        self, opened: _OpenConnection, name: str, arguments: dict[str, Any], context: Context
    ) -> Output:
        seconds = self.server.call_seconds
        try:
            result = await opened.client.result().call_tool(
                name, arguments, read_timeout_seconds=seconds, progress_callback=_progress(context)
            )
        except Exception as error:
            message = str(error)
            if message == _UNKNOWN_SESSION:
                opened.over.set()
                raise _NotRunError(self.server.name) from error
            if opened.over.is_set() or message.startswith(_LOST):
                opened.over.set()
                what = "was lost while the call ran, which may have had effects"
                raise self._failed(what, _why(error), opened) from error
            if message == _REFUSED:
                opened.over.set()
            return Output(error=_call_error(error, seconds))
        return output_of_result(result)

    async def _opened(self) -> _OpenConnection:
        async with self._connecting:
            if self._open is None or not self._open.is_usable:
                await self.close()
                await self._connect()
            if self._open is None:
                raise self._failed("cannot be used", "it was closed meanwhile")
            return self._open

    async def _connect(self) -> None:
        await _import_sdk()
        opened = self._open = _OpenConnection()
        opened.owner = asyncio.create_task(self._own(opened), name=f"mcp {self.server.name}")
        # A failure to close helps nobody: marked as seen.
        opened.owner.add_done_callback(lambda owner: None if owner.cancelled() else owner.exception())
        waiting: list[asyncio.Future[Any]] = [opened.owner, opened.client]
        try:
            await asyncio.wait(
                waiting, timeout=self.server.start_seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            if not opened.client.done():
                opened.owner.cancel()
        if opened.client.done():
            return
        await asyncio.wait([opened.owner], timeout=CLOSE_SECONDS)
        error = None if opened.owner.cancelled() or not opened.owner.done() else opened.owner.exception()
        late = f"it did not answer within {self.server.start_seconds:g} seconds"
        raise self._failed("cannot be reached", late if error is None else _why(error), opened)

    async def _own(self, opened: _OpenConnection) -> None:
        from mcp import Client  # noqa: PLC0415 - heavy, and loaded by now

        try:
            async with AsyncExitStack() as stack:
                transport = await self._transport(opened, stack)
                client = Client(_watched(transport, opened.over.set), elicitation_callback=self._answer)
                await stack.enter_async_context(client)
                opened.client.set_result(client)
                await opened.over.wait()
        finally:
            opened.over.set()
            await opened.stderr.settle()
            opened.stderr.close()

    async def _answer(self, context: object, params: object) -> Any:  # noqa: ARG002 - as the SDK calls it
        return await answer_server(self.server.name, params, self._ask())

    async def _transport(self, opened: _OpenConnection, stack: AsyncExitStack) -> Any:
        address = self.server.address
        if isinstance(address, HttpAddress):
            return await _http_transport(address, self.server.call_seconds, stack)
        errors = stack.enter_context(await opened.stderr.open())
        if os.name == "posix":
            return stdio_transport(self.server, address, errors, self._sandbox)
        return _sdk_transport(address, errors)

    def _failed(self, what: str, why: str, opened: _OpenConnection | None = None) -> SegueError:
        written = opened.stderr.text(self.server.given.values()) if opened is not None else ""
        shown = f" (It wrote: {written})" if written else ""
        is_child = isinstance(self.server.address, StdioAddress)
        hint = _CHILD_HINT if is_child else "Check its url and headers, and that it runs."
        if is_child and self.server.sandboxed and self._sandbox.confines:
            hint = f"{_CHILD_HINT} {_SANDBOX_HINT}"
        return TransportError(
            f'The MCP server "{self.server.name}" {what}: {why}{shown}.', code="mcp_connection", hint=hint
        )


def _as_listed(tool: ListedTool) -> McpTool:
    return McpTool(
        name=tool.name,
        description=tool.description or tool.title or "",
        input_schema=tool.input_schema,
        read_only=tool.annotations is not None and tool.annotations.read_only_hint is True,
    )


class _NotRunError(Exception):
    """The server refused to look at a call, so it may be sent again."""


@asynccontextmanager
async def _watched(transport: Any, gone: Callable[[], None]) -> AsyncIterator[tuple[Any, Any]]:
    """A transport that reports when the other side is gone, before anybody tries to use it."""
    async with transport as (read, write):
        yield _WatchedStream(read, gone), write


class _WatchedStream:
    def __init__(self, stream: Any, gone: Callable[[], None]) -> None:
        self._stream = stream
        self._gone = gone

    def __aiter__(self) -> _WatchedStream:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except BaseException:
            self._gone()
            raise

    async def __aenter__(self) -> _WatchedStream:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *why: Any) -> Any:
        return await self._stream.__aexit__(*why)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


async def _import_sdk() -> None:
    """Importing takes seconds, which the loop should not have to wait for."""
    # Without any handler Python prints the SDK's complaint about each line that is no message, with the line.
    if not (log := logging.getLogger("mcp")).handlers:
        log.addHandler(logging.NullHandler())
    try:
        await in_thread(lambda: __import__("mcp"))
    except ImportError as error:
        raise UsageError(
            "MCP servers need the package mcp.",
            code="mcp_missing",
            hint="In the clone of segue run: python -m pip install '.[mcp]'",
        ) from error


def _sdk_transport(address: StdioAddress, errors: TextIO) -> Any:
    """Where there are no process groups."""
    from mcp import StdioServerParameters  # noqa: PLC0415 - heavy, and loaded by now
    from mcp.client.stdio import stdio_client  # noqa: PLC0415

    environment = server_environment(address)
    parameters = StdioServerParameters(
        command=address.command, args=list(address.args), env=environment, cwd=address.cwd
    )
    return stdio_client(parameters, errlog=errors)


async def _http_transport(address: HttpAddress, seconds: float, stack: AsyncExitStack) -> Any:
    import httpx2  # noqa: PLC0415 - comes with the SDK

    if address.is_old:
        from mcp.client.sse import sse_client  # noqa: PLC0415

        return sse_client(address.url, headers=address.headers)
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

    # A tool may think for as long as its calls may take before the first byte comes.
    timeout = httpx2.Timeout(30.0, read=seconds + 30.0)
    client = await stack.enter_async_context(httpx2.AsyncClient(headers=address.headers, timeout=timeout))
    return streamable_http_client(address.url, http_client=client)


def _progress(context: Context) -> ProgressFnT:
    async def report(progress: float, total: float | None, message: str | None) -> None:
        share = f"{progress:g}/{total:g}" if total else f"{progress:g}"
        with suppress(Exception):
            context.progress(f"{share} {message}" if message else share)

    return report


def _call_error(error: Exception, seconds: float) -> str:
    """What went wrong with a call, for the model to read."""
    if getattr(error, "code", None) == _TIMED_OUT:
        return f"The tool did not answer within {seconds:g} seconds and was cancelled."
    if str(error) == _REFUSED:
        return "The server refused the request. The next call makes a new connection to it."
    return _why(error)


def _why(error: BaseException) -> str:
    """The first real cause in a nest of exception groups, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if type(error).__name__ == "ValidationError":
        return "the server answered with something that the protocol does not know"
    return " ".join(str(error).split())[:MAX_WHY].rstrip(".") or type(error).__name__
