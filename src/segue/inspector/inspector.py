"""The inspector of a gateway: watches it, and answers for everything below /segue/inspector/.

Order of every request: the name in Host, where the browser says it comes from, the login, then the page. Pages are made in a thread,
so that no reply waits for one.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, OrderedDict
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, final

import msgspec

from segue.config.session_stores import open_store
from segue.dialects.registry import DIALECTS, WIRES
from segue.errors import CredentialsError, InvalidRequestError, SegueError
from segue.gateway.accounts.register import ANYONE
from segue.gateway.requests.web import WebResponse
from segue.inspector import actions
from segue.inspector.access import security
from segue.inspector.access.bodies import decoded, read_body
from segue.inspector.access.logins import SESSION_SECONDS, Logins, Viewer
from segue.inspector.live import Channel
from segue.inspector.markup import shell, words
from segue.inspector.markup.shell import ROOT, Page, PageFrame
from segue.inspector.page_request import View
from segue.inspector.pages import (
    approvals,
    cache,
    conversation,
    diff,
    doctor,
    errors,
    keys,
    operators,
    other_model,
    overview,
    request,
    routes,
)
from segue.inspector.record.recorder import Recorder
from segue.sessions.approvals import WaitingCalls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, MutableMapping, Sequence
    from pathlib import Path

    from segue.config.schema import InspectSettings
    from segue.exchange.attempt import Attempt
    from segue.gateway.app import Gateway
    from segue.gateway.conversations.turns import ClientTurn
    from segue.gateway.memory.installation_key import InstallationKey
    from segue.gateway.memory.store import ConversationInfo
    from segue.gateway.requests.web import Receive, ResponseWriter, WebRequest
    from segue.gateway.telemetry.report import RequestReport
    from segue.inspector.record.content_file import ContentFile

from segue.inspector.access.audit import AuditLog

_MOST_STREAMS: Final = 6
"""Of one login."""
_MOST_BODY: Final = 32 << 20
_PAGE_SECONDS: Final = 20.0
_MOST_REVEALED: Final = 1000
_MOST_STORED: Final = 1000
_STORED_SECONDS: Final = 0.5
"""For so long what the memory of the gateway knows is not asked for again."""
_PAGES: Final[tuple[tuple[re.Pattern[str], Callable[..., Page]], ...]] = tuple(
    (re.compile(pattern), make)
    for pattern, make in (
        ("/", overview.page),
        ("/c/([^/]{1,200})", conversation.page),
        ("/c/([^/]{1,200})/requests", conversation.requests_page),
        ("/c/([^/]{1,200})/cache", cache.page),
        ("/c/([^/]{1,200})/as", other_model.page),
        ("/r/([^/]{1,200})", request.page),
        ("/r/([^/]{1,200})/diff", diff.page),
        ("/approvals", approvals.page),
        ("/errors", errors.page),
        ("/routes", routes.page),
        ("/keys", keys.page),
        ("/log", operators.log_page),
        ("/audit", operators.audit_page),
        ("/settings", operators.settings_page),
        ("/doctor", doctor.page),
    )
)


@final
class Inspector:
    """Of one process."""

    def __init__(
        self,
        settings: InspectSettings,
        key: InstallationKey,
        *,
        audit_file: Path | None = None,
        content_file: ContentFile | None = None,
        processes: int = 1,
    ) -> None:
        """`content_file`: where what is said is stored. `processes`: of the gateway; each has an inspector of its own."""
        self.channel = Channel()
        self.recorder = Recorder(
            records_content=self._records_content,
            max_bytes=settings.max_bytes,
            max_requests=settings.max_requests,
            on_change=self.channel.changed,
            file=content_file,
        )
        self._stores = content_file is not None
        self.logins = Logins(key)
        self.audit = AuditLog(audit_file)
        self._settings = settings
        self._processes = processes
        self._gateway: Gateway | None = None
        self._approvals: WaitingCalls | None = None
        self._streams: Counter[str] = Counter()
        self._revealed: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._stored_at: dict[str | None, tuple[float, dict[str, ConversationInfo]]] = {}
        self._told: dict[tuple[object, ...], bytes] = {}
        """What was told last, by who may see it: pages that are open are told the same together."""
        self._telling = asyncio.Lock()
        self._closing = asyncio.Event()

    # Watching the gateway

    def attach(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._settings = gateway.config.gateway.inspect
        if self._settings.approvals:
            self._approvals = WaitingCalls(open_store(gateway.config))

    @property
    def keeps_bodies(self) -> bool:
        return self.recorder.content

    def _records_content(self) -> bool:
        """If the settings do not say so: where nobody but the user of this machine is served."""
        if self._settings.content is not None:
            return self._settings.content != "off"
        return self._gateway is not None and self._gateway.accounts.is_open

    async def detach(self, gateway: Gateway) -> None:
        if gateway is self._gateway:
            self._closing.set()
            self.recorder.close()
            if self._approvals is not None:
                await self._approvals.store.close()

    def began(self, report: RequestReport, turn: ClientTurn, switched: str) -> None:
        self.recorder.began(report, turn, switched)

    def asks(self, report: RequestReport, attempt: Attempt) -> None:
        self.recorder.asks(report, attempt)

    def ended(self, report: RequestReport) -> None:
        self.recorder.ended(report)

    # Answering

    def serves(self, head: WebRequest) -> bool:
        path = head.path
        if path == "/":
            return head.method == "GET" and "text/html" in head.headers.get("accept", "")
        return path == ROOT or path.startswith(f"{ROOT}/")

    async def serve(
        self, scope: MutableMapping[str, Any], head: WebRequest, receive: Receive, writer: ResponseWriter
    ) -> None:
        writer.headers.update(security.HEADERS)
        try:
            security.check_host(head, scope, self._settings.hosts)
            security.check_fetch(head)
            await self._answer(scope, head, receive, writer)
        except SegueError as error:
            status = getattr(error, "status", None) or 400
            await writer.whole(_failure(head, error, status))
        except TimeoutError:
            await writer.whole(_failure(head, InvalidRequestError("This took too long."), 503))

    async def _answer(
        self, scope: MutableMapping[str, Any], head: WebRequest, receive: Receive, writer: ResponseWriter
    ) -> None:
        if head.path == "/":
            await writer.whole(_html(shell.welcome_page(inspector=True, wires=_wires())))
            return
        if (found := shell.served_asset(head.path)) is not None:
            writer.headers["cache-control"] = shell.FOR_EVER
            await writer.whole(found)
            return
        path = head.path.removeprefix(ROOT) or "/"
        if head.path == ROOT:
            await writer.whole(WebResponse(status=308, headers={"location": f"{ROOT}/"}))
            return
        if path == "/login":
            await self._log_in(scope, head, receive, writer)
            return
        viewer = await self._viewer(scope, head)
        if viewer is None:
            await writer.whole(await self._asks_for_login(head))
            return
        if path == "/events":
            await self._follow(viewer, head, receive, writer)
        elif head.method == "POST":
            security.check_write(head, viewer.csrf)
            await writer.whole(await self._act(viewer, path, head, receive))
        elif head.method in ("GET", "HEAD"):
            await writer.whole(await self._page(viewer, path, head))
        else:
            raise InvalidRequestError("Only GET and POST are answered here.", code="method", status=405)

    # Logging in

    @property
    def gateway(self) -> Gateway:
        assert self._gateway is not None  # noqa: S101 - it serves through the gateway
        return self._gateway

    def _cookie(self, scope: MutableMapping[str, Any]) -> str:
        """Its name: cookies do not know ports."""
        return f"segue_inspector_{security.port_of(scope)}"

    async def _viewer(self, scope: MutableMapping[str, Any], head: WebRequest) -> Viewer | None:
        return await self.logins.viewer(security.cookie_in(head, self._cookie(scope)), self.gateway.accounts)

    async def _has_callers(self) -> bool:
        return await self.gateway.accounts.find_digest("") is not ANYONE

    async def _asks_for_login(self, head: WebRequest) -> WebResponse:
        if "text/html" in head.headers.get("accept", "") and head.method == "GET":
            return _html(shell.login_page(has_callers=await self._has_callers()), status=401)
        return _json({"error": "Log in: segue inspect"}, status=401)

    async def _log_in(
        self, scope: MutableMapping[str, Any], head: WebRequest, receive: Receive, writer: ResponseWriter
    ) -> None:
        if head.method != "POST":
            await writer.whole(_html(shell.login_page(has_callers=await self._has_callers())))
            return
        security.check_write(head, None)
        given = msgspec.json.decode(await read_body(receive, 4096), type=dict[str, str], strict=True)
        key = ""
        if await self._has_callers():
            key = given.get("key", "")
            try:
                name = (await self.gateway.accounts.find([key])).name
            except CredentialsError:
                await asyncio.sleep(0.2)
                raise security.refusal() from None
        elif not self.logins.redeem(given.get("token", "")):
            raise security.refusal()
        else:
            name = ANYONE.name
        self.audit.note(name, "logged in")
        secure = "; Secure" if scope.get("scheme") == "https" else ""
        writer.headers["set-cookie"] = (
            f"{self._cookie(scope)}={self.logins.open(key)}; Path={ROOT}; Max-Age={SESSION_SECONDS}; HttpOnly; "
            f"SameSite=Strict{secure}"
        )
        await writer.whole(_json({"ok": True}))

    # Pages

    async def _view(self, viewer: Viewer, head: WebRequest, *, as_data: bool = False) -> View:
        await asyncio.to_thread(self.recorder.catch_up)
        stored = await self._stored(None if viewer.is_operator else viewer.name)
        revealed = frozenset(name for session, name in self._revealed if session == viewer.session)
        return View(
            viewer=viewer,
            recorder=self.recorder,
            gateway=self.gateway,
            providers=self.gateway.providers,
            audit=self.audit,
            query=head.query,
            revealed=revealed,
            stored=stored,
            as_data=as_data,
            approvals=self._approvals,
        )

    async def _stored(self, caller: str | None) -> dict[str, ConversationInfo]:
        """What the memory of the gateway knows of this caller's conversations. Pages that are open ask for it together."""
        now = monotonic()
        at, held = self._stored_at.get(caller, (-_STORED_SECONDS, {}))
        if now - at < _STORED_SECONDS:
            return held
        try:
            found = await self.gateway.memory.store.conversations(_MOST_STORED, caller)
        except SegueError:  # a store that is away takes no page with it
            return {}
        if len(self._stored_at) >= _MOST_REVEALED:
            self._stored_at.clear()
        self._stored_at[caller] = now, {info.id: info for info in found}
        return self._stored_at[caller][1]

    async def _page(self, viewer: Viewer, path: str, head: WebRequest) -> WebResponse:
        as_json = path.endswith(".json")
        plain = path.removesuffix(".json") or "/"
        plain = "/" if plain == "/index" else plain
        for pattern, make in _PAGES:
            if (found := pattern.fullmatch(plain)) is not None:
                count = self.channel.count
                view = await self._view(viewer, head, as_data=as_json)
                prepare = getattr(make, "prepare", None)
                more = await prepare(view, *found.groups()) if prepare is not None else ()
                page = await asyncio.wait_for(
                    asyncio.to_thread(self._made, make, view, found.groups(), more), _PAGE_SECONDS
                )
                if as_json:
                    return _json(page.data, status=page.status)
                if isinstance(page.data, bytes):
                    return _file(page.data, page.download)
                return _html(
                    shell.document(page, self._frame(viewer, head, plain, count)), status=page.status
                )
        raise InvalidRequestError("There is no such page.", code="not_found", status=404)

    def _made(self, make: Callable[..., Page], view: View, groups: tuple[str, ...], more: Any) -> Page:
        with self.recorder.lock:
            return make(view, *groups, *more)

    def _frame(self, viewer: Viewer, head: WebRequest, path: str, count: int) -> PageFrame:
        recorder = self.recorder
        content = (
            f"content {'stored' if self._stores else 'in memory'}, {words.megabytes(recorder.held_bytes)} of {words.megabytes(recorder.max_bytes)} MB"
            if recorder.content
            else "content off"
        )
        if self._processes > 1:
            content += f" · one of {self._processes} processes: each shows its own"
        place = "this machine only"
        if viewer.account is not ANYONE:
            place = f"{'operator' if viewer.is_operator else 'caller'} {viewer.name}"
        query = head.target.partition("?")[2]
        json_path = f"{ROOT}{'/index' if path == '/' else path}.json" + (f"?{query}" if query else "")
        return PageFrame(
            address=head.headers.get("host", ""),
            place=place,
            content=content,
            csrf=viewer.csrf,
            tabs=self._tabs(viewer),
            json_path=json_path,
            count=count,
        )

    def _tabs(self, viewer: Viewer) -> tuple[str, ...]:
        if not viewer.is_operator:
            return ("conversations", "errors", "routes", "doctor")
        more = ("approvals",) if self._approvals is not None else ()
        return ("conversations", *more, "errors", "routes", "keys", "doctor")

    # What is done on pages

    async def _act(self, viewer: Viewer, path: str, head: WebRequest, receive: Receive) -> WebResponse:
        body = await read_body(receive, _MOST_BODY)
        if path == "/logout":
            self.logins.close(viewer.session)
            return _json({"ok": True})
        if path == "/api/reveal":
            return _json(await self._reveal(viewer, body))
        act = actions.ACTIONS.get(path.removeprefix("/api/")) if path.startswith("/api/") else None
        if act is None:
            raise InvalidRequestError("There is no such action.", code="not_found", status=404)
        self._stored_at.clear()  # a switch is seen at once
        view = await self._view(viewer, head)
        done = await act(view, body)
        self._stored_at.clear()
        return _json(done)

    async def _reveal(self, viewer: Viewer, body: bytes) -> dict[str, bool]:
        """An operator wants to read what a caller said: it is a permission of its own, and each look is noted."""
        name = decoded(body, actions.OneConversation).conversation
        known = self.recorder.conversations.get(name)
        if known is None or not (viewer.is_operator and self._settings.operators_see_content):
            raise InvalidRequestError(
                "Operators may not read the content of conversations here (gateway.inspect.operators_see_content).",
                code="not_permitted",
                status=403,
            )
        self.audit.note(viewer.name, "looked at content", f"{name} of {known.caller}")
        self._revealed[viewer.session, name] = None
        while len(self._revealed) > _MOST_REVEALED:
            self._revealed.popitem(last=False)
        return {"ok": True}

    # Live

    async def _follow(
        self, viewer: Viewer, head: WebRequest, receive: Receive, writer: ResponseWriter
    ) -> None:
        if self._streams[viewer.session] >= _MOST_STREAMS:
            raise InvalidRequestError("Too many pages are open.", code="too_many", status=429)
        given = head.headers.get("last-event-id", "") or head.query.get("after", "")
        last = int(given[:15]) if given.isascii() and given.isdigit() else None
        self._streams[viewer.session] += 1
        try:
            await writer.start(200, {"content-type": "text/event-stream"})
            telling = asyncio.ensure_future(self._tell(viewer, head, last, writer))
            leaving = asyncio.ensure_future(_until_gone(receive))
            ending = asyncio.ensure_future(self._closing.wait())
            waiting = {telling, leaving, ending}
            try:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in waiting:
                    task.cancel()
                await asyncio.gather(*waiting, return_exceptions=True)
            await writer.end()
        finally:
            self._streams[viewer.session] -= 1
            if not self._streams[viewer.session]:
                del self._streams[viewer.session]

    async def _tell(self, viewer: Viewer, head: WebRequest, last: int | None, writer: ResponseWriter) -> None:
        await writer.write(
            f"retry: 2000\nid: {self.channel.count if last is None else last}\nevent: hello\ndata: {{}}\n\n".encode()
        )
        async for count, changed in self.channel.follow(last):
            if changed is None:
                await writer.write(f"id: {count}\nevent: resync\ndata: {{}}\n\n".encode())
            elif not changed:
                await writer.write(b": still here\n\n")
                if await self.gateway.accounts.find_digest("") is not ANYONE and viewer.account is ANYONE:
                    return
            else:
                data = await self._changes(viewer, head, count, changed)
                await writer.write(b"id: %d\nevent: change\ndata: %s\n\n" % (count, data))

    async def _changes(self, viewer: Viewer, head: WebRequest, count: int, changed: Sequence[str]) -> bytes:
        view = await self._view(viewer, head)
        key = (count, viewer.name, viewer.is_operator, view.revealed, *changed)
        async with self._telling:
            if (told := self._told.get(key)) is None:
                told = await asyncio.to_thread(self._encoded_changes, view, changed)
                self._told = {held: data for held, data in self._told.items() if held[0] == count}
                self._told[key] = told
        return told

    def _encoded_changes(self, view: View, changed: Sequence[str]) -> bytes:
        with self.recorder.lock:
            return msgspec.json.encode(overview.changes(view, changed))


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _html(body: bytes, status: int = 200) -> WebResponse:
    return WebResponse(status=status, headers={"content-type": "text/html; charset=utf-8"}, body=body)


def _json(content: object, status: int = 200) -> WebResponse:
    body = content if isinstance(content, bytes) else msgspec.json.encode(content)
    return WebResponse(status=status, headers={"content-type": "application/json"}, body=body)


def _file(data: bytes, name: str) -> WebResponse:
    """As it is, to look at or to save. Never as HTML: what it holds is a stranger's."""
    headers = {"content-type": "text/plain; charset=utf-8"}
    if name:
        headers["content-disposition"] = f'attachment; filename="{name}"'
    return WebResponse(headers=headers, body=data)


def _failure(head: WebRequest, error: SegueError, status: int) -> WebResponse:
    if "text/html" in head.headers.get("accept", "") and status != 403:
        text = error.message.encode()
        return WebResponse(
            status=status, headers={"content-type": "text/plain; charset=utf-8"}, body=text + b"\n"
        )
    return _json(
        {"error": error.message, "hint": error.hint} if status != 403 or error.code != "refused" else {},
        status,
    )


def _wires() -> list[tuple[str, str]]:
    """Each API with its usual path: the shortest, with a version where there is one."""
    paths = {name: min(_chat_paths(name), default=(False, 0, ""))[2] for name in WIRES}
    return [(name.replace("_", " "), path) for name, path in sorted(paths.items()) if path]


def _chat_paths(wire: str) -> Iterator[tuple[bool, int, str]]:
    for path in DIALECTS[wire].server.paths:
        if path.operation == "chat":
            yield not path.pattern.startswith("/v1"), len(path.pattern), path.pattern
