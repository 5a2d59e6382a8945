"""Approvals over HTTP: an ASGI application that shows which calls wait for somebody's answer, and takes the answers.

    app = approvals_app(SQLiteStore("sessions.db"), token=os.environ["APPROVALS_TOKEN"])

    GET  /approvals           the calls of all sessions that wait, those first that wait longest; ?limit=100
    GET  /SESSION/approvals   those of one session
    POST /SESSION/approve     {"call_id": "…", "allow": true, "by": "carol@example.org", "why": "…"}

Mount it at `/Agent`, and it has the paths of Restate's agents. It only writes answers into journals: whoever waits for them
resumes the turn, or whoever resumes the session later. Nobody gets in without the token, or without a name from your own login.
"""

from __future__ import annotations

import asyncio
import hmac
import inspect
import logging
import re
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, final
from urllib.parse import parse_qs, urlsplit

import msgspec
from msgspec import structs

from segue.errors import InvalidRequestError, JournalError, SegueError, UsageError
from segue.sessions.approvals import WaitingCalls, check_answer, read_answer, status_of
from segue.sessions.errors import AnsweredError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, MutableMapping

    from segue.sessions.approvals import CallAnswer
    from segue.sessions.stores.store import Store

    Scope: TypeAlias = MutableMapping[str, Any]
    Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

Login: TypeAlias = "Callable[[Scope], str | Awaitable[str | None] | None]"
"""Of your application: the name of whoever sent a request, by its ASGI scope; None if nobody is logged in."""

_SHORTEST_TOKEN: Final = 16
_MOST_BODY: Final = 64 * 1024
_BODY_SECONDS: Final = 30.0
_MOST_KEY: Final = 200
_ONE: Final = re.compile(r"/([A-Za-z0-9][A-Za-z0-9._-]{0,99})/(approvals|approve)")
_HEADERS: Final[Mapping[str, str]] = {
    "content-type": "application/json",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
_LOG: Final = logging.getLogger("segue.approvals")


class WakingAgents(Protocol):
    """An engine that wakes its turn when a call is answered: `DBOSAgents`."""

    async def approve(
        self, turn: str, call_id: str, *, by: str, allow: bool = True, why: str = "", key: str = ""
    ) -> None: ...


def approvals_app(
    store: Store, *, token: str = "", login: Login | None = None, agents: WakingAgents | None = None
) -> ApprovalsApplication:
    """The approvals of a store's sessions as an ASGI application, below any path.

    `token`: a secret of at least 16 characters, which every request sends as `authorization: Bearer …`; each answer names who gives
    it. `login`: your own function instead; it names who sends a request, and signs the answers. One of both is required. `agents`:
    the agents of DBOS whose sessions are in the store; an answer wakes their turn at once.
    """
    return ApprovalsApplication(store, token=token, login=login, agents=agents)


class _RefusedError(InvalidRequestError):
    """An answer other than 200."""

    def __init__(self, status: int, code: str, message: str, **members: Any) -> None:
        super().__init__(message, code=code, status=status)
        self.more = members


@final
class ApprovalsApplication:
    """An ASGI application."""

    def __init__(self, store: Store, *, token: str, login: Login | None, agents: WakingAgents | None) -> None:
        """As `approvals_app`."""
        if not token and login is None:
            raise UsageError(
                "Approvals over HTTP need a token or a login: whoever may answer decides what your tools do.",
                code="no_login",
                path="token",
                hint="Give token=, a secret of at least 16 characters, or login=, a function of your application.",
            )
        if token and login is not None:
            raise UsageError("Give a token or a login, not both.", code="bad_option", path="login")
        if token and len(token) < _SHORTEST_TOKEN:
            raise UsageError(
                f"The token is shorter than {_SHORTEST_TOKEN} characters.",
                code="bad_option",
                path="token",
                hint='Make one: python -c "import secrets; print(secrets.token_urlsafe())"',
            )
        self._calls = WaitingCalls(store)
        self._token = token.encode()
        self._login = login
        self._agents = agents

    def __repr__(self) -> str:
        return "ApprovalsApplication()"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        try:
            status, content = 200, await self._answer(scope, receive)
        except _RefusedError as error:
            status, content = error.status or 400, _refused(error.status or 400, error, error.more)
        except AnsweredError as error:
            first = {"by": error.given.by, "allow": error.given.allowed, "why": error.given.why}
            status, content = 409, _refused(409, error, {"answer": first, "at": error.at})
        except UsageError as error:
            status = status_of(error)
            content = _refused(status, error, {})
        except (SegueError, TimeoutError) as error:
            # What a store says of itself, such as its path, is for the log.
            _LOG.error("Approvals cannot be read or written: %s", error)
            busy = isinstance(error, JournalError) and error.code == "session_busy"
            said = "Another process has the session open." if busy else "The sessions cannot be reached now."
            status, content = 503, {"code": 503, "reason": "unavailable", "message": f"{said} Try again."}
        await _respond(send, status, content)

    async def _answer(self, scope: Scope, receive: Receive) -> Any:
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        _check_origin(headers)
        who = await self._who(scope, headers)
        path, method = _below_root(scope), scope["method"]
        one = _ONE.fullmatch(path)
        if path != "/approvals" and one is None:
            raise _RefusedError(404, "not_found", "There is no such path.")
        wanted = "POST" if one is not None and one[2] == "approve" else "GET"
        if method != wanted:
            raise _RefusedError(405, "method", f"Send {wanted}.")
        if one is None:
            return [call.as_dict() for call in await self._calls.find(_limit(scope))]
        if wanted == "GET":
            return await self._waiting(one[1])
        return await self._give(one[1], headers, receive, who)

    async def _who(self, scope: Scope, headers: Mapping[str, str]) -> str:
        """The name that the login gives; "" where the token is right, which says no name. Raises for everybody else."""
        if self._login is None:
            kind, _, given = headers.get("authorization", "").partition(" ")
            if kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self._token):
                return ""
            raise _RefusedError(401, "unauthorized", "A token is needed.")
        name = self._login(scope)
        if inspect.isawaitable(name):
            name = await name
        if not isinstance(name, str) or not name.strip():
            raise _RefusedError(401, "unauthorized", "Log in.")
        return name

    async def _waiting(self, session: str) -> list[dict[str, Any]]:
        try:
            return [call.as_dict() for call in await self._calls.of(session)]
        except JournalError as error:
            if error.code == "unknown_session":
                return []
            raise

    async def _give(
        self, session: str, headers: Mapping[str, str], receive: Receive, who: str
    ) -> dict[str, Any]:
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise _RefusedError(415, "content_type", "Send application/json.")
        answer = read_answer(await _body(receive))
        if who and answer.by not in ("", who):
            raise _RefusedError(400, "bad_answer", "`by` is not the name that you are logged in under.")
        answer = structs.replace(answer, by=who or answer.by)
        check_answer(answer)
        key = headers.get("idempotency-key", "")
        if len(key) > _MOST_KEY:
            raise _RefusedError(400, "bad_answer", "The idempotency key is too long.")
        key = key and f"http:{key}"
        if not await self._given_to_agents(session, answer, key):
            await self._calls.answer(session, answer, key=key)
        return dict(msgspec.to_builtins(answer))

    async def _given_to_agents(self, session: str, answer: CallAnswer, key: str) -> bool:
        """False where no engine waits for it."""
        if self._agents is None:
            return False
        waiting = await self._waiting(session)
        turn = next((call["turn"] for call in waiting if call["id"] == answer.call_id), "")
        if not turn:
            return False
        try:
            await self._agents.approve(
                turn, answer.call_id, by=answer.by, allow=answer.allow, why=answer.why, key=key
            )
        except UsageError as error:
            if error.code != "unknown_approval":
                raise
            return False
        return True


def _check_origin(headers: Mapping[str, str]) -> None:
    """Raises for what a page of another site has a browser send: its cookies would go with it."""
    site, origin = headers.get("sec-fetch-site", "none"), headers.get("origin")
    foreign = origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower()
    if foreign or site not in ("none", "same-origin"):
        raise _RefusedError(403, "refused", "Refused.")


def _below_root(scope: Scope) -> str:
    """The path below the place where the application is mounted; some frameworks have taken that away already."""
    root, path = str(scope.get("root_path", "")).rstrip("/"), str(scope["path"])
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


def _limit(scope: Scope) -> int:
    given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("limit", ["100"])[-1]
    if not (given.isascii() and given.isdecimal() and 0 < len(given) < 6):
        raise _RefusedError(400, "bad_option", "`limit` is a number.")
    return int(given)


async def _body(receive: Receive) -> bytes:
    data, more = b"", True
    async with asyncio.timeout(_BODY_SECONDS):
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _RefusedError(400, "gone", "The client has gone.")
            data += message.get("body", b"")
            if len(data) > _MOST_BODY:
                raise _RefusedError(413, "too_large", f"More than {_MOST_BODY} bytes.")
            more = message.get("more_body", False)
    return data


def _refused(status: int, error: SegueError, members: Mapping[str, Any]) -> dict[str, Any]:
    """As Restate's server writes errors, `code` is the status."""
    return {"code": status, "reason": error.code, "message": str(error), **members}


async def _respond(send: Send, status: int, content: Any) -> None:
    body = msgspec.json.encode(content)
    more = {"www-authenticate": "Bearer"} if status == 401 else {}
    fields = {**_HEADERS, **more, "content-length": str(len(body))}
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(name.encode(), value.encode()) for name, value in fields.items()],
        }
    )
    await send({"type": "http.response.body", "body": body})


async def _live(receive: Receive, send: Send) -> None:
    while True:
        phase = (await receive())["type"]
        await send({"type": f"{phase}.complete"})
        if phase == "lifespan.shutdown":
            return
