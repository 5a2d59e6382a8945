"""One call and its end: a tool is run within its time, and whatever it does, there is a result."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from segue.conversation.blocks import Media, ToolCall, ToolResult
from segue.conversation.json_safe import encodable, ensure_json_safe, json_safe
from segue.events import Emit, ToolProgress
from segue.text.redaction import redact_known
from segue.tools.arguments import problem_with
from segue.tools.definition import Context, Output, StoppedCallError
from segue.tools.function_tools import as_tool
from segue.tools.media_types import media_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from segue.conversation.blocks import Reason
    from segue.tools.definition import Host, Tool

GRACE = 1.0
"""Seconds that a tool has to stop after it was cancelled. Then it is left to itself, and its result is ignored."""

_NOT_RUN: Mapping[Reason, str] = {
    "cancelled_by_user": "No result: the user cancelled before this call began, so it did not run.",
    "provider_error": "No result: the reply that asked for this call broke off, so it did not run.",
}


async def run_call(tool: Tool, context: Context, stopped: asyncio.Future[Any]) -> ToolResult:
    """The end of one call, within its tool's time and not long after `stopped`. No tool makes it raise."""
    call = context.call
    running = asyncio.ensure_future(_started(tool, context))
    try:
        await asyncio.wait({running, stopped}, timeout=tool.timeout, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        abandon(running)
        raise
    if running.done():
        return _outcome(call, running)
    cancelled = stopped.done()
    await stop(running)
    if not cancelled:
        return ToolResult(call.id, call.name, reason="timed_out")
    error = running.exception() if running.done() and not running.cancelled() else None
    if isinstance(error, StoppedCallError):
        return _stopped(call, error.output)
    if running.done() and not running.cancelled() and error is None:
        return _outcome(call, running)
    return ToolResult(call.id, call.name, reason="cancelled_by_user")


async def run_tool(
    tool: Tool | Callable[..., Any], arguments: dict[str, Any] | None = None, *, host: Host | None = None
) -> ToolResult:
    """Run one tool outside of any turn: it appears in no journal and in no conversation. A failure is a result with its `error`."""
    tool = as_tool(tool)
    call = ToolCall("single", tool.name, arguments or {})
    if problem := problem_with(call, tool.spec, tool.check):
        return ToolResult(call.id, call.name, error=problem)
    never = asyncio.get_running_loop().create_future()
    abort = asyncio.Event()
    deps = None if host is None else host.deps
    context = Context(call=call, abort=abort, progress=_ignore, host=host, deps=deps)
    try:
        return await run_call(tool, context, never)
    except asyncio.CancelledError:
        abort.set()
        raise


async def _started(tool: Tool, context: Context) -> Any:
    try:
        return await tool.run(context.call.arguments or {}, context)
    except SystemExit as error:  # a task that raises it ends the whole loop
        raise RuntimeError(f"SystemExit: {error}") from error


def _outcome(call: ToolCall, running: asyncio.Future[Any]) -> ToolResult:
    """What a tool returned. A failure is a result like any other, which the model reads."""
    if running.cancelled():
        return _failed(call, "it was cancelled")
    error = running.exception()
    if error is not None:
        return _failed(call, _text_of(error))
    try:
        output = output_of(running.result())
    except Exception as error_of_value:  # values may be of any class, and do anything when they are looked at
        return _failed(call, f"its result cannot be sent: {_text_of(error_of_value)}")
    value, error_text = redact_known([output.value, output.error])
    return ToolResult(call.id, call.name, value, error_text, complete=error_text is None, media=output.media)


def output_of(value: Any) -> Output:
    """Any value a tool may return: text, JSON, dataclasses, Structs, media, the bytes of an image, or an Output."""
    given = value if type(value) is Output else Output(value)
    error = None if given.error is None else encodable(given.error)
    held = given.value if type(given.value) in (list, tuple) else (given.value,)
    pieces = [(one, _media(one)) for one in held]
    media = tuple(piece for _, piece in pieces if piece is not None)
    if not media:
        return Output(_plain(given.value), given.media, error)
    rest = [_plain(one) for one, piece in pieces if piece is None]
    return Output(rest[0] if len(rest) == 1 else rest or None, (*media, *given.media), error)


def _media(value: Any) -> Media | None:
    if type(value) is Media:
        return value
    return media_of(bytes(value)) if isinstance(value, (bytes, bytearray)) else None


def _plain(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray)):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return json_safe(value)
    return ensure_json_safe(value)


def _stopped(call: ToolCall, output: str) -> ToolResult:
    text = f"The user stopped this call. It may have had side effects. Its output until then:\n{output}"
    return ToolResult(call.id, call.name, redact_known(text), reason="cancelled_by_user")


def _failed(call: ToolCall, why: str) -> ToolResult:
    return ToolResult(call.id, call.name, error=redact_known(f"Tool execution failed: {why}"))


def _text_of(error: BaseException) -> str:
    try:
        return encodable(str(error)) or type(error).__name__
    except Exception:  # an error whose own text cannot be made
        return type(error).__name__


async def stop(running: asyncio.Future[Any]) -> None:
    """Cancel and wait a little. What comes later is ignored, and not reported as lost either."""
    abandon(running)
    await asyncio.wait({running}, timeout=GRACE)


def abandon(running: asyncio.Future[Any]) -> None:
    running.cancel()
    running.add_done_callback(lambda late: late.cancelled() or late.exception())


def not_run(call: ToolCall, reason: Reason = "cancelled_by_user") -> ToolResult:
    """The end of a call that cannot have had effects, so nobody need check for them."""
    return ToolResult(
        call.id, call.name, _NOT_RUN.get(reason, "No result: this call did not run."), reason=reason
    )


def _ignore(_message: str) -> None:
    """Without a listener."""


class Progress(Struct):
    """Reports how far a call is, from any thread, until it is over."""

    call: ToolCall
    emit: Emit
    over: bool = False
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    def __call__(self, message: str) -> None:
        with suppress(RuntimeError):  # a thread may outlive the loop
            self._loop.call_soon_threadsafe(self._report, message)

    def _report(self, message: str) -> None:
        if not self.over:
            self.emit(ToolProgress(self.call, redact_known(message)))
