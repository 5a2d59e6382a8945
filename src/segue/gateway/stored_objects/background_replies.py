"""Replies that are made in the background: asked for now, fetched, followed or cancelled later, by any gateway on the store.

The gateway that makes one has its events; the others see its record, which is written anew while it is made, so that one
whose gateway died is not waited for.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import Context
from time import time
from typing import TYPE_CHECKING, Any, Final, final

import msgspec

from segue.dialects.server_side.stored_wires import stored_wire
from segue.errors import InvalidRequestError, OverloadError, SegueError
from segue.gateway.accounts.register import ANYONE
from segue.gateway.requests.byte_budget import weight_of
from segue.gateway.requests.client_errors import for_client, unexpected
from segue.gateway.requests.web import ResponseWriter, json_response
from segue.gateway.stored_objects.reply_archive import LOST_SECONDS, ReplyNode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from segue.config.schema import GatewayLimits
    from segue.dialects.dialect import Dialect
    from segue.gateway.conversations.turns import ClientTurn
    from segue.gateway.doors.paths import Door
    from segue.gateway.requests.byte_budget import ByteBudget, Holding
    from segue.gateway.requests.web import WebRequest, WebResponse
    from segue.gateway.stored_objects.reply_archive import ReplyArchive
    from segue.transports.asgi import AsgiMessage

BEAT_SECONDS: Final = 5.0
"""How often the record of a running reply is written, and looked at by others who wait for it."""
KEPT_SECONDS: Final = 600.0
"""How long the events of a complete reply are kept for clients that come back."""


@final
class _Job:
    """One reply that this gateway makes, or has made."""

    task: asyncio.Task[None]
    """Set when it is begun."""

    def __init__(self, turn: ClientTurn, held: Holding) -> None:
        """`held`: what it holds of the budget. It closes it."""
        self.held = held
        self.id = turn.prepared.reply_id
        self.whole = not turn.prepared.is_part
        self.caller = turn.caller
        self.dialect: Dialect = turn.dialect
        wire = stored_wire(turn.dialect.name)
        self.events = wire.new_events(self.id, turn.asked, int(time()), turn.repeated)
        prepared = turn.prepared
        self.parent, self.removed = prepared.parent, [*prepared.removed]
        new = wire.input_items(turn.fields)[prepared.before :]
        self.input = [msgspec.Raw(msgspec.json.encode(item)) for item in new]
        self.done = False
        self.stopped: SegueError | None = None
        """Why it is cancelled; None: its client asked for that."""
        self._status = 0
        self._error = b""
        self._changed = asyncio.Event()

    async def collect(self, message: AsgiMessage) -> None:
        """What would be sent to a client that waits."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            return
        if self._status == 200:
            self.held.add(len(message["body"]))
            self.events.feed(message["body"])
        else:
            self._error += message["body"]
            if not message["more_body"]:
                self.events.fail(self.dialect.decode_error(self._status, {}, self._error))
        self.notify()

    def notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def change(self, seconds: float) -> bool:
        """Whether something was added within this time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
            return True
        return self.done

    def keep_events(self, held: Holding) -> None:
        """Of a complete reply only the events are kept, for clients that come back: its input is stored. Raises if there is no
        room for them."""
        self.input = []
        self.held.close()
        self.held = held
        held.add(sum(map(len, self.events.frames)))

    def record(self) -> ReplyNode:
        body = msgspec.json.encode(self.events.reply)
        return ReplyNode(
            reply=msgspec.Raw(body),
            input=self.input,
            parent=self.parent,
            removed=self.removed,
            wire=self.dialect.name,
            whole=self.whole,
            beat=0.0 if self.done else time(),
        )


@final
class BackgroundReplies:
    """Those of one gateway process."""

    def __init__(self, archive: ReplyArchive, limits: GatewayLimits, budget: ByteBudget) -> None:
        self._archive = archive
        self._limits = limits
        self._budget = budget
        budget.when_short(self._forget)
        self._jobs: dict[tuple[str, str], _Job] = {}

    async def start(
        self,
        turn: ClientTurn,
        run: Callable[[ResponseWriter], Awaitable[None]],
        writer: ResponseWriter,
    ) -> None:
        """Begin a reply; its client gets what there is of it, or follows it."""
        if sum(not job.done for job in self._jobs.values()) >= self._limits.concurrent:
            raise OverloadError("Too many replies are made in the background.", retry_after=5.0)
        job = _Job(turn, self._open_holding(turn.caller))
        try:
            job.held.add(weight_of(msgspec.json.encode(job.input)))
            await self._archive.put(job.caller, job.id, job.record())
        except BaseException:
            job.held.close()
            raise
        self._jobs[job.caller, job.id] = job
        job.task = asyncio.ensure_future(self._work(job, run))
        if turn.prepared.followed:
            await self._follow(job, 0, writer)
        else:
            await writer.whole(json_response(job.events.reply))

    async def _work(self, job: _Job, run: Callable[[ResponseWriter], Awaitable[None]]) -> None:
        watch = asyncio.ensure_future(self._watch(job))
        try:
            async with asyncio.timeout(self._limits.reply_timeout):
                await run(ResponseWriter(job.collect, {}))
        except asyncio.CancelledError:
            job.events.cancel() if job.stopped is None else job.events.fail(job.stopped)
        except TimeoutError:
            seconds = self._limits.reply_timeout
            job.events.fail(OverloadError(f"The reply took longer than {seconds:g} s.", code="reply_timeout"))
        except SegueError as error:
            job.events.fail(for_client(error))
        except Exception as error:
            job.events.fail(unexpected(error, job.id))
        finally:
            watch.cancel()
            job.events.fail(OverloadError("The reply broke off."))  # no effect if it has an end
            job.done = True
            job.notify()
            # A timer holds its context, and this one may hold the request.
            asyncio.get_running_loop().call_later(
                KEPT_SECONDS, self._drop, (job.caller, job.id), context=Context()
            )
            with suppress(SegueError):
                await self._archive.put(job.caller, job.id, job.record())
            try:
                job.keep_events(self._open_holding(job.caller))
            except SegueError:
                self._drop((job.caller, job.id))

    async def _watch(self, job: _Job) -> None:
        """Show others that the reply is being made, and see whether one of them was asked to cancel it."""
        while not job.done:
            await asyncio.sleep(BEAT_SECONDS)
            with suppress(SegueError):
                if await self._archive.is_cancelled(job.caller, job.id):
                    job.task.cancel()
                    return
                await self._archive.put(job.caller, job.id, job.record())

    def _open_holding(self, caller: str) -> Holding:
        return self._budget.open("" if caller == ANYONE.name else caller)

    def _forget(self, size: int) -> None:
        """Give back so many bytes: the events of replies that ended first are dropped first."""
        for key, job in list(self._jobs.items()):
            if size <= 0:
                return
            if job.done:
                size -= job.held.size
                self._drop(key)

    def _drop(self, key: tuple[str, str]) -> None:
        job = self._jobs.pop(key, None)
        if job is not None:
            job.held.close()

    # What clients ask later

    async def answer(self, door: Door, request: WebRequest, caller: str) -> WebResponse:
        """Show, list, delete or cancel."""
        reply_id = door.params.get("id", "")
        if door.operation in ("cancel_reply", "delete_reply"):
            reply = await self._cancelled(door, caller, reply_id)
            if door.operation == "cancel_reply":
                return json_response(reply)
            self._drop((caller, reply_id))
        elif door.operation == "get_reply":
            reply = await self._reply(door, caller, reply_id)
            if stored_wire(door.dialect.name).asks_for_input(request.query):
                reply = {**reply, "input": await self._archive.input_of(door, caller, reply_id)}
            return json_response(reply)
        return await self._archive.answer(door, request, caller)

    async def _job(self, door: Door, caller: str, reply_id: str) -> _Job | None:
        """None if the reply is not made here, or was deleted, be it at another gateway."""
        job = self._jobs.get((caller, reply_id))
        if job is not None and job.task.done():
            with suppress(SegueError):  # without the store, what is here is shown
                if await self._archive.find(caller, reply_id, door.dialect.name) is None:
                    self._drop((caller, reply_id))
                    return None
        return job

    async def _reply(self, door: Door, caller: str, reply_id: str) -> dict[str, Any]:
        """A reply as it stands. Raises if there is none."""
        job = await self._job(door, caller, reply_id)
        if job is not None:
            return job.events.reply
        wire = stored_wire(door.dialect.name)
        found = await self._archive.find(caller, reply_id, door.dialect.name)
        if found is None:
            raise wire.not_found(reply_id)
        reply = await self._archive.shown(caller, found)
        if wire.is_running(reply) and not found.is_being_made:
            lost = wire.new_events(reply_id, str(reply.get("model")), int(found.beat), wire.repeated(reply))
            lost.fail(OverloadError("The gateway that made this reply has stopped."))
            return lost.reply
        return reply

    async def _cancelled(self, door: Door, caller: str, reply_id: str) -> dict[str, Any]:
        """The reply, ended. One that is complete stays as it is."""
        job = await self._job(door, caller, reply_id)
        if job is not None:
            if not job.done:
                job.task.cancel()
                await asyncio.wait({job.task})
            return job.events.reply
        wire = stored_wire(door.dialect.name)
        reply = await self._reply(door, caller, reply_id)
        if wire.is_running(reply):
            await self._archive.cancel(caller, reply_id)
            for _ in range(int(LOST_SECONDS / BEAT_SECONDS)):
                await asyncio.sleep(BEAT_SECONDS / 2)
                reply = await self._reply(door, caller, reply_id)
                if not wire.is_running(reply):
                    break
        elif door.operation == "cancel_reply" and not wire.is_cancellable(reply):
            raise InvalidRequestError(
                "Cannot cancel a reply that is complete, or that its client waits for.",
                code="not_cancellable",
                hint="Close the connection while the reply is streamed.",
            )
        return reply

    async def follow(self, door: Door, request: WebRequest, caller: str, writer: ResponseWriter) -> None:
        """Stream the events of a reply behind the one with the number that the client names."""
        reply_id, wire = door.params.get("id", ""), stored_wire(door.dialect.name)
        if (job := await self._job(door, caller, reply_id)) is not None:
            await self._follow(job, wire.events_seen(request.query), writer)
            return
        reply = await self._reply(door, caller, reply_id)
        await _start_stream(writer, door.dialect)
        while wire.is_running(reply):
            await asyncio.sleep(BEAT_SECONDS)
            await writer.write(door.dialect.server.keep_alive)
            reply = await self._reply(door, caller, reply_id)
        await writer.end(wire.last_frame(reply))

    async def _follow(self, job: _Job, sent: int, writer: ResponseWriter) -> None:
        """From behind so many events."""
        await _start_stream(writer, job.dialect)
        while True:
            done, frames = job.done, job.events.frames[sent:]
            sent += len(frames)
            await writer.write(b"".join(frames))
            if done:
                await writer.end()
                return
            if not await job.change(self._limits.keep_alive):
                await writer.write(job.dialect.server.keep_alive)

    async def complete(self) -> None:
        """Wait for all that is made, however long it takes."""
        if running := [job.task for job in self._jobs.values() if not job.task.done()]:
            await asyncio.wait(running)

    async def close(self) -> None:
        """Wait for what is made, as long as running replies may take to end; then end it."""
        running = [job for job in self._jobs.values() if not job.task.done()]
        if not running:
            return
        await asyncio.wait([job.task for job in running], timeout=self._limits.drain)
        for job in running:
            if not job.task.done():
                job.stopped = OverloadError("The gateway was stopped.", hint="Send the request again.")
                job.task.cancel()
        await asyncio.wait([job.task for job in running])


async def _start_stream(writer: ResponseWriter, dialect: Dialect) -> None:
    await writer.start(200, {"content-type": dialect.server.stream_type, "cache-control": "no-cache"})
