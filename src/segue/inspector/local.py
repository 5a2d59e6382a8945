"""The inspector without a gateway: one page about a saved session, a file, or the calls that wait in a store of sessions, on a port
of this machine, until it is stopped.

The same rules hold as on the gateway: the name in Host first, then a login with a token that is used once.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final, final

import msgspec

from segue.config.schema import GatewayLimits
from segue.errors import InvalidRequestError, SegueError
from segue.gateway.memory.installation_key import KEY_BYTES, InstallationKey
from segue.gateway.requests.web import JSON_TYPE, ResponseWriter, WebResponse, read_head
from segue.inspector import approvals
from segue.inspector.access import security
from segue.inspector.access.bodies import decoded, read_body
from segue.inspector.access.logins import SESSION_SECONDS, Logins, new_token
from segue.inspector.markup import shell
from segue.inspector.markup.shell import ROOT, PageFrame

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, MutableMapping

    from segue.gateway.requests.web import Receive, Send, WebRequest
    from segue.inspector.markup.shell import Page
    from segue.sessions.approvals import WaitingCalls

_LIMITS = GatewayLimits()
_MOST_LOGIN: Final = 4096
_MOST_ANSWER: Final = 64 << 10


@final
class LocalInspector:
    """An ASGI application."""

    def __init__(
        self,
        make: Callable[[Mapping[str, str]], Awaitable[Page]],
        place: str,
        *,
        waiting: WaitingCalls | None = None,
    ) -> None:
        """`make` gets the query of a request. `waiting`: calls that whoever looks at the page may answer for."""
        self._make = make
        self._place = place
        self._waiting = waiting
        self._key = InstallationKey(secrets.token_bytes(KEY_BYTES))
        self._logins = Logins(self._key)

    def token(self) -> str:
        return new_token(self._key)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        writer = ResponseWriter(send, security.HEADERS)
        try:
            head = read_head(scope, _LIMITS)
            security.check_host(head, scope, ())
            security.check_fetch(head)
            await writer.whole(await self._answer(scope, head, receive, writer))
        except SegueError as error:
            status = getattr(error, "status", None) or 400
            await writer.whole(_failure(error, status, as_json=scope["path"].startswith(f"{ROOT}/api/")))

    async def close(self) -> None:
        if self._waiting is not None:
            await self._waiting.store.close()

    async def _answer(
        self, scope: MutableMapping[str, Any], head: WebRequest, receive: Receive, writer: ResponseWriter
    ) -> WebResponse:
        name = f"segue_inspector_{security.port_of(scope)}"
        if (found := shell.served_asset(head.path)) is not None:
            writer.headers["cache-control"] = shell.FOR_EVER
            return found
        if head.path == f"{ROOT}/login" and head.method == "POST":
            security.check_write(head, None)
            given = decoded(await read_body(receive, _MOST_LOGIN), dict[str, str])
            if not self._logins.redeem(given.get("token", "")):
                raise security.refusal()
            writer.headers["set-cookie"] = (
                f"{name}={self._logins.open()}; Path={ROOT}; Max-Age={SESSION_SECONDS}; HttpOnly; SameSite=Strict"
            )
            return WebResponse(headers={"content-type": JSON_TYPE}, body=b"{}")
        session = self._logins.session(security.cookie_in(head, name))
        if session is None or head.path == f"{ROOT}/login":
            html = {"content-type": "text/html; charset=utf-8"}
            return WebResponse(
                status=200 if head.path.endswith("/login") else 401,
                headers=html,
                body=shell.login_page(has_callers=False),
            )
        csrf = self._logins.csrf(session)
        if head.method == "POST" and head.path == f"{ROOT}/api/answer" and self._waiting is not None:
            security.check_write(head, csrf)
            _, done = await approvals.answer(self._waiting, await read_body(receive, _MOST_ANSWER), signer="")
            return WebResponse(headers={"content-type": JSON_TYPE}, body=msgspec.json.encode(done))
        if head.path not in (f"{ROOT}/", f"{ROOT}/index.json") or head.method not in ("GET", "HEAD"):
            raise InvalidRequestError("There is no such page.", code="not_found", status=404)
        page = await self._make(head.query)
        if head.path.endswith(".json"):
            return WebResponse(headers={"content-type": JSON_TYPE}, body=msgspec.json.encode(page.data))
        query = head.target.partition("?")[2]
        frame = PageFrame(
            address=head.headers.get("host", ""),
            place=self._place,
            content="",
            csrf=csrf,
            tabs=(),
            json_path=f"{ROOT}/index.json" + (f"?{query}" if query else ""),
            live=False,
        )
        return WebResponse(
            headers={"content-type": "text/html; charset=utf-8"}, body=shell.document(page, frame)
        )


def _failure(error: SegueError, status: int, *, as_json: bool) -> WebResponse:
    if not as_json:
        return WebResponse(status=status, headers={"content-type": "text/plain"}, body=error.message.encode())
    told = {"error": error.message, "hint": error.hint}
    return WebResponse(status=status, headers={"content-type": JSON_TYPE}, body=msgspec.json.encode(told))
