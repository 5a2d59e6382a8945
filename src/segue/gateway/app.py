"""The gateway as an ASGI application: every wire's doors, and behind them any provider.

It knows no wire: paths, fields, envelopes and frames are the dialects' own. `GET /healthz` and `/readyz` and everything
under `/segue/` are for operators.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from secrets import token_hex
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Final, final

from msgspec import structs

from segue.conversation.json_text import too_deep
from segue.errors import CredentialsError, InvalidRequestError, OverloadError, SegueError
from segue.gateway.accounts import costs
from segue.gateway.accounts.register import ANYONE, Accounts
from segue.gateway.accounts.sqlite_store import SQLiteAccountStore
from segue.gateway.conversations.reader import TurnReader
from segue.gateway.doors.batches import ClientBatches
from segue.gateway.doors.control import METRICS, open_control
from segue.gateway.doors.paths import Doors, check_signature, keys_of, unknown_key
from segue.gateway.doors.readiness import Readiness
from segue.gateway.doors.services import ClientServices
from segue.gateway.exchanges.client_exchange import ClientExchange
from segue.gateway.exchanges.compaction import ClientCompaction
from segue.gateway.exchanges.members import Members
from segue.gateway.memory.conversation_notes import ConversationNotes
from segue.gateway.names import ModelNames
from segue.gateway.requests.admission import LoopWatch, RunningRequests
from segue.gateway.requests.body import read_body
from segue.gateway.requests.byte_budget import ByteBudget
from segue.gateway.requests.client_errors import (
    busy_error,
    error_response,
    path_error,
    unexpected,
    write_error,
)
from segue.gateway.requests.disconnection import work_until_gone
from segue.gateway.requests.large_bodies import read_beside
from segue.gateway.requests.web import (
    RESPONSE,
    ClientGoneError,
    ResponseWriter,
    WebRequest,
    WebResponse,
    given_id,
    read_head,
    refuse_websocket,
)
from segue.gateway.requests.web_pages import WebPages
from segue.gateway.server.response_socket import ResponseSocket
from segue.gateway.stored_objects.background_replies import BackgroundReplies
from segue.gateway.stored_objects.cached_contents import HeldContents
from segue.gateway.stored_objects.conversation_objects import ConversationObjects
from segue.gateway.stored_objects.reply_archive import ReplyArchive
from segue.gateway.telemetry.report import RequestReport
from segue.providers.models.prices import PriceBook
from segue.transports.deadline import Deadline

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence

    from segue.config.schema import Config
    from segue.dialects.dialect import Dialect
    from segue.gateway.accounts.account import Account
    from segue.gateway.conversations.turns import ClientTurn
    from segue.gateway.doors.paths import Door
    from segue.gateway.memory.memory import Memory
    from segue.gateway.requests.web import Receive, Send
    from segue.gateway.stored_objects.conversation_objects import ConversationLease
    from segue.gateway.stored_objects.reply_archive import ReplyOrigin
    from segue.gateway.watcher import GatewayWatcher
    from segue.providers.registry import KnownProviders
    from segue.routing.route import Route

OPERATORS: Final = "/segue/"
EXPLAIN: Final = "/segue/v1/explain"


@final
class Gateway:
    """The application. One per process; all its state is here and in the memory."""

    def __init__(
        self,
        config: Config,
        providers: KnownProviders,
        memory: Memory,
        *,
        accounts: Accounts | None = None,
        metrics: Callable[[], bytes] | None = None,
        on_report: Callable[[RequestReport], object] | None = None,
        on_close: Callable[[], Awaitable[None]] | None = None,
        watcher: GatewayWatcher | None = None,
    ) -> None:
        """`metrics`: what Prometheus reads; None if it is off. `watcher`: the inspector, if there is one."""
        self.config = config
        self.settings = config.gateway
        self.providers = providers
        self.memory = memory
        self.running = 0
        """Requests that are being served."""
        self.draining = False
        """Set it, and new requests are refused while those that run come to their end."""
        self.names = ModelNames(config, providers)
        self.members = Members(self.names, providers, self.settings, memory)
        self.accounts = accounts or Accounts(
            SQLiteAccountStore(),
            self.settings.callers,
            self.settings.accounts,
            prices=PriceBook({**providers.price_rules, **config.prices}),
        )
        self._budget = budget = ByteBudget(self.settings.limits.held_bytes)
        self._archive = archive = ReplyArchive(memory)
        self._objects = objects = ConversationObjects(memory, archive, self.settings.limits.reply_timeout)
        self._compactor = ClientCompaction(self.members, providers, memory)
        contents = HeldContents(memory, self.settings.memory.days)
        self._reader = TurnReader(
            self.names,
            memory,
            self.members.plans,
            archive,
            objects,
            self._compactor,
            contents,
            self.settings.limits,
        )
        self._reader.keep_warm(prompts=self.members.caches, prompt_tools=self.members.caches.tools)
        self._jobs = BackgroundReplies(archive, self.settings.limits, budget)
        self._services = ClientServices(
            self.names,
            self.members,
            providers,
            self._reader,
            self._compactor,
            self._jobs,
            objects,
            contents,
        )
        self._batches = ClientBatches(self.names, providers, memory, self.accounts)
        self._callers = RunningRequests()
        self.readiness = Readiness(memory.store, self.accounts.store)
        self._doors = Doors()
        self._pages = WebPages(self.settings.origins)
        self._watch = LoopWatch(self.settings.limits.lag)
        self._control = open_control(config, providers, memory.store, metrics, memory.recent)
        self._on_report = on_report
        self._on_close = on_close
        self._notes = ConversationNotes(memory)
        self._sockets = 0
        self.watcher = watcher
        if watcher is not None:
            watcher.attach(self)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._converse(scope, receive, send)
            return
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        report = RequestReport(
            request_id=given_id(scope) or token_hex(8),
            method=scope.get("method", ""),
            path=scope["path"],
            began=time(),
        )
        writer = ResponseWriter(send, {"x-request-id": report.request_id}, scope.get(RESPONSE))
        deadline = Deadline()
        self.running += 1
        try:
            with ExitStack() as until_answered:
                await self._answer(scope, receive, writer, report, deadline, until_answered)
        except ClientGoneError:
            report.client_gone = True
        except Exception as error:
            defect = unexpected(error, report.request_id)
            report.error = defect.code
            if not writer.started:
                dialect = self._doors.wire_of(report.method, report.path, {})
                with suppress(Exception):
                    await writer.whole(error_response(defect, dialect))
        finally:
            self.running -= 1
            report.status, report.reply_bytes = writer.status, writer.sent
            report.seconds = monotonic() - report.started
            report.warm_bytes = self._reader.warm_bytes()
            report.held_bytes = self._budget.held
            self._report(report)

    def _report(self, report: RequestReport) -> None:
        if self._on_report is not None:
            self._on_report(report)
        if self.watcher is not None:
            self.watcher.ended(report)

    async def _converse(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Over a WebSocket. Its requests are those of HTTP; here it is decided only whether it is opened."""
        await receive()
        headers: Mapping[str, str] = {}
        try:
            head = structs.replace(read_head(scope, self.settings.limits), method="POST")
            headers = head.headers
            door = self._doors.find("POST", head.path, headers)
            if door is None or not door.dialect.server.has_socket or door.operation != "chat":
                raise _no_socket()
            self._admit()
            account = await self._account(head, door.dialect, door)
            if "origin" in head.headers or account is ANYONE:
                self._pages.check(head)
            if self._sockets >= self.settings.limits.concurrent:
                raise busy_error(f"has {self._sockets} open sockets already")
        except SegueError as error:
            wire = self._doors.wire_of("POST", scope["path"], headers)
            await refuse_websocket(scope, send, error_response(error, wire))
            return
        caller = "" if account is ANYONE else account.name
        self._sockets += 1
        try:
            await ResponseSocket(self, scope, self._budget, caller).converse(receive, send)
        finally:
            self._sockets -= 1

    async def _answer(
        self,
        scope: MutableMapping[str, Any],
        receive: Receive,
        writer: ResponseWriter,
        report: RequestReport,
        deadline: Deadline,
        until_answered: ExitStack,
    ) -> None:
        """`until_answered`: what the request holds until its end."""
        headers: Mapping[str, str] = {}
        try:
            head = read_head(scope, self.settings.limits)
            headers = head.headers
            report.client = headers.get("user-agent", "")
            report.trace_parent = headers.get("traceparent", "")
            if self.watcher is not None and self.watcher.serves(head):
                await self.watcher.serve(scope, head, receive, writer)
                return
            if "origin" in headers:
                _keep_pages_out(head)
                writer.headers.update(self._pages.headers(head))
            if (early := await self._without_body(head)) is not None:
                await writer.whole(early)
                return
            door = self._door(head)
            self._admit()
            account = await self._account(head, self._wire(head, door), door)
            report.caller = account.name
            if account is ANYONE:
                self._pages.check(head)
            if head.path == EXPLAIN or (door is not None and door.operation in costs.ASKS_A_MODEL):
                until_answered.enter_context(self._callers.counted(account))
            held = until_answered.enter_context(self._budget.open("" if account is ANYONE else account.name))
            request = structs.replace(
                head,
                body=await read_body(receive, head, self.settings.limits, deadline, held),
                weight=held.size,
            )
            report.request_bytes = len(request.body)
            request, door = await read_beside(held.size, partial(self._open, request, door, account))
        except SegueError as error:
            report.error = error.code
            await writer.whole(
                error_response(error, self._doors.wire_of(report.method, report.path, headers))
            )
            return
        cancels = self.settings.on_disconnect == "cancel"
        work = self._dispatch(door, request, account, writer, report, deadline)
        if await work_until_gone(work, scope, receive, cancels=cancels):
            report.client_gone = True

    async def _account(self, head: WebRequest, dialect: Dialect, door: Door | None) -> Account:
        keys = keys_of(head, dialect)
        if not keys and door is not None and (account := await self._batches.uploads.account(door, head)):
            return account
        try:
            return await self.accounts.find(keys)
        except CredentialsError as error:
            raise unknown_key(error, head, dialect) from None

    def _open(
        self, request: WebRequest, door: Door | None, account: Account
    ) -> tuple[WebRequest, Door | None]:
        """A request as its wire's own clients write it, and the door that its body shows. What is signed is the body as it came."""
        if account is not ANYONE:
            check_signature(request, self._wire(request, door), datetime.now(UTC))
        if door is None:
            return request, None
        request = door.opened(request)
        return request, self._doors.by_body(door, request)

    async def _without_body(self, head: WebRequest) -> WebResponse | None:
        """What is answered at once, without a key."""
        match head.method, head.path:
            case _, "/healthz":
                return WebResponse(headers={"content-type": "text/plain"}, body=b"ok\n")
            case _, "/readyz":
                return await self.readiness.answer(head.query, draining=self.draining)
        if (preflight := self._pages.preflight(head)) is not None:
            return preflight
        if head.headers.get("upgrade", "").lower() == "websocket":
            raise _no_socket()
        return None

    def _door(self, head: WebRequest) -> Door | None:
        """None for operators' paths."""
        door = self._doors.find(head.method, head.path, head.headers)
        if door is None and not _is_operators(head):
            raise path_error(head)
        return door

    def _wire(self, head: WebRequest, door: Door | None) -> Dialect:
        return door.dialect if door is not None else self._doors.wire_of(head.method, head.path, head.headers)

    def _admit(self) -> None:
        self._watch.begin()
        if self.draining:
            why = "is stopping"
        elif self.running > self.settings.limits.concurrent:
            why = f"serves {self.running - 1} requests already"
        elif self._watch.overloaded:
            why = f"is more than {self.settings.limits.lag:g} s late with its {self.running - 1} requests"
        else:
            return
        raise busy_error(why)

    async def _dispatch(
        self,
        door: Door | None,
        request: WebRequest,
        account: Account,
        writer: ResponseWriter,
        report: RequestReport,
        deadline: Deadline,
    ) -> None:
        dialect = self._wire(request, door)
        deadline.begin(self.settings.limits.reply_timeout)
        try:
            with deadline:
                await self._perform(door, request, account, writer, report)
        except SegueError as error:
            report.error = error.code
            await write_error(writer, error, dialect)
        except RecursionError:
            deep = too_deep()
            report.error = deep.code
            await write_error(writer, deep, dialect)
        except TimeoutError:
            seconds = self.settings.limits.reply_timeout
            late = OverloadError(f"The reply took longer than {seconds:g} s.", code="reply_timeout")
            report.error = late.code
            await write_error(writer, late, dialect)
        except asyncio.CancelledError:
            if self.draining:  # the server cuts what took too long to end, or else the client has gone
                report.error = "gateway_busy"
                with suppress(Exception):
                    await write_error(writer, busy_error("was stopped"), dialect)
            raise

    def _perform(
        self,
        door: Door | None,
        request: WebRequest,
        account: Account,
        writer: ResponseWriter,
        report: RequestReport,
    ) -> Awaitable[None]:
        if door is None:
            return self._operate(request, account, writer, report)
        report.wire, report.operation = door.dialect.name, door.operation
        if door.operation in ("chat", "generate"):
            return self._reply(door, request, account, writer, report)
        if door.operation == "batch":
            return self._batches.serve(door, request, account, writer, report)
        if door.operation == "get_reply" and request.query.get("stream") == "true":
            return self._jobs.follow(door, request, account.name, writer)
        return self._serve(door, request, account, writer, report)

    async def _serve(
        self, door: Door, request: WebRequest, account: Account, writer: ResponseWriter, report: RequestReport
    ) -> None:
        """What is no reply of a model."""
        async with costs.counted_service(self.accounts, account, self.names, door, request, report):
            answered = await self._services.answer(door, request, account, report)
        await writer.whole(answered)

    async def _operate(
        self, request: WebRequest, account: Account, writer: ResponseWriter, report: RequestReport
    ) -> None:
        answered: WebResponse | None
        if request.path == EXPLAIN and request.method == "POST":
            async with costs.counted_for_nothing(self.accounts, account, report):
                answered = await self._services.explain(request, account, self._doors)
        else:
            answered = await self.accounts.administration.answer(request, account)
            answered = answered or await self._control(request, account)
        if answered is None:
            raise path_error(request)
        await writer.whole(answered)

    async def _reply(
        self, door: Door, request: WebRequest, account: Account, writer: ResponseWriter, report: RequestReport
    ) -> None:
        """A reply of a model."""
        if (loaded := self._services.loaded(door, request, account)) is not None:
            await writer.whole(loaded)
            return
        turn = await self._reader.read_chat(door, request, account.name)
        if not turn.prepared.reply_id:
            await self._answer_turn(turn, account, report, writer)
            return
        run = partial(self._answer_later, turn, account, structs.replace(report, tries=[]))
        await self._jobs.start(turn, run, writer)

    async def _answer_later(
        self, turn: ClientTurn, account: Account, report: RequestReport, writer: ResponseWriter
    ) -> None:
        """A reply that its client fetches when it is made."""
        try:
            await self._answer_turn(turn, account, report, writer)
        finally:
            report.operation, report.status, report.seconds = (
                "background",
                writer.status,
                monotonic() - report.started,
            )
            self._report(report)

    async def _answer_turn(
        self, turn: ClientTurn, account: Account, report: RequestReport, writer: ResponseWriter
    ) -> None:
        report.asked, report.stream, report.conversation = turn.asked, turn.stream, turn.conversation_id
        report.describe_history(turn.conversation.messages, turn.originals)
        switched, known = await self._reader.looked_up(turn)
        if self.watcher is not None:
            self.watcher.began(report, turn, switched)
        routes = self.names.router(switched or turn.asked).routes
        held = turn.prepared.held
        lease = None if held is None else await self._objects.lease(turn.caller, held)
        try:
            await self._ask(turn, account, report, writer, lease, switched, routes, known=known)
        finally:
            if lease is not None:
                await lease.close()

    async def _ask(
        self,
        turn: ClientTurn,
        account: Account,
        report: RequestReport,
        writer: ResponseWriter,
        lease: ConversationLease | None,
        switched: str,
        routes: Sequence[Route],
        *,
        known: bool,
    ) -> None:
        admission, expected = await costs.admit(self.accounts, account, turn, self.names, routes)
        try:
            if admission is not None:
                standing = costs.standing_of(admission)
                writer.headers.update(turn.dialect.server.standing_headers(standing))
            if (compacted := await self._compactor.compacted(turn, report, switched)) is not None:
                await writer.whole(compacted)
                return
            exchange = ClientExchange(
                turn,
                writer,
                report,
                memory=self.memory,
                members=self.members,
                keep=partial(self._keep, lease) if turn.prepared.kept else None,
                notes=self._notes,
                watcher=self.watcher,
            )
            try:
                await exchange.run(self.members.routings(turn, switched), known=known)
            finally:
                exchange.note_cache(self.accounts.prices)
        finally:
            costs.settle(self.accounts, admission, expected, report)

    async def _keep(
        self, lease: ConversationLease | None, turn: ClientTurn, body: bytes, origin: ReplyOrigin
    ) -> None:
        """A complete reply that its client may continue; and the turn in its conversation. Replies that are made in the background
        are kept with their events."""
        name = turn.prepared.reply_id or await self._archive.keep(turn, body, origin)
        if lease is not None:
            if not name:
                raise OverloadError("The turn could not be added to its conversation.", code="store_away")
            await lease.advance(name)

    async def settle(self) -> None:
        """Wait for what runs beside the requests."""
        await self._notes.settle()
        await self.accounts.settled()

    async def complete(self) -> None:
        await self._jobs.complete()

    async def close(self) -> None:
        await self._jobs.close()
        await self._services.close()
        await self.settle()
        await self.accounts.close()
        await self.memory.close()
        if self.watcher is not None:
            await self.watcher.detach(self)
        if self._on_close is not None:
            await self._on_close()

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return
            await send({"type": f"{message['type']}.complete"})


def _is_operators(head: WebRequest) -> bool:
    return head.path.startswith((OPERATORS, METRICS))


def _no_socket() -> InvalidRequestError:
    """Clients that try a WebSocket first send the same request over HTTP when they are refused so (WS-07)."""
    return InvalidRequestError(
        "There is no WebSocket at this path.",
        code="upgrade_required",
        status=426,
        hint="Send the same request over HTTP.",
    )


def _keep_pages_out(head: WebRequest) -> None:
    """Raises for a page in a browser on an operators' path: without accounts it would count as this machine's user."""
    if _is_operators(head):
        raise InvalidRequestError(
            "Only operators may do this, and no web page.", code="operators_only", status=403
        )
