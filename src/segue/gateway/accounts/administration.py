"""What operators do with accounts: make, change, list and revoke them; and the usage. Over HTTP:

GET  /segue/v1/callers                      all of them, without keys
POST /segue/v1/callers                      {"name": …, "allowance": {…}, "labels": {…}, "expires": …}; answers with the key
PUT  /segue/v1/callers/{name}               {"allowance": {…}}
POST /segue/v1/callers/{name}/rotate        {"grace": seconds}; answers with the new key
POST /segue/v1/callers/{name}/revoke
DELETE /segue/v1/callers/{name}             also one that was revoked
GET  /segue/v1/usage?from=DAY&to=DAY
"""

from __future__ import annotations

import re
import time
from datetime import date
from typing import TYPE_CHECKING, Final, TypeVar, final

import msgspec
from msgspec import Struct, structs

from segue.config.schema import Allowance
from segue.errors import InvalidRequestError, UsageError
from segue.gateway.accounts.account import Account, moment_of, new_key, rotated
from segue.gateway.accounts.budget_rules import MILLION, spend
from segue.gateway.requests.web import json_response

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from segue.gateway.accounts.store import AccountStore, UsageRow
    from segue.gateway.requests.web import WebRequest, WebResponse

_PATHS: Final = re.compile("/segue/v1/(usage|callers|callers/[^/]+(/rotate|/revoke)?)")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_T = TypeVar("_T")


@final
class CallerInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An account as operators see it."""

    name: str
    allowance: Allowance = Allowance()
    labels: dict[str, str] = {}
    admin: bool = False
    created: float = 0.0
    expires: float | None = None
    revoked: float | None = None
    dollars_today: float = 0.0
    dollars_this_month: float = 0.0
    running: int = 0
    """Requests."""


class _NewCaller(Struct, forbid_unknown_fields=True):
    name: str
    allowance: Allowance = Allowance()
    labels: dict[str, str] = {}
    expires: str = ""
    admin: bool = False


class _Changes(Struct, forbid_unknown_fields=True):
    allowance: Allowance


class _Rotation(Struct, forbid_unknown_fields=True):
    grace: float = 0.0
    expires: str = ""


def usage_days(first: str, last: str, now: float | None = None) -> tuple[str, str]:
    """The days that are meant, each as 2026-01-31: without a first one this month so far."""
    today = time.strftime("%Y-%m-%d", time.gmtime(now))
    first, last = first or today[:8] + "01", last or today
    for day in (first, last):
        _check_day(day)
    return first, last


def _check_day(text: str) -> None:
    try:
        if _DAY.fullmatch(text):
            date.fromisoformat(text)
            return
    except ValueError:  # a month or a day that no calendar has
        pass
    raise UsageError(f'"{text}" is not a day.', code="bad_time", hint="Write it like 2027-01-31.")


def check_name(name: str) -> None:
    """Raises if no caller can have it."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f'"{name}" cannot be the name of a caller.',
            code="bad_name",
            hint="Use letters, digits, and any of . _ @ - (at most 100).",
        )


@final
class Administration:
    """Changes the accounts in a store."""

    def __init__(self, store: AccountStore, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    async def create(
        self,
        name: str,
        allowance: Allowance,
        *,
        labels: dict[str, str],
        expires: str = "",
        admin: bool = False,
    ) -> str:
        """The key, which is shown only now."""
        check_name(name)
        now, key = self._clock(), new_key()
        account = Account(name=name, allowance=allowance, labels=labels, created=now, admin=admin)
        await self._store.save(rotated(account, key, now, expires=moment_of(expires)), new=True)
        return key

    async def rotate(self, name: str, *, grace: float = 0.0, expires: str = "") -> str:
        """A new key; the old one holds for `grace` more seconds."""
        account, key = await self._account(name), new_key()
        changed = rotated(account, key, self._clock(), grace=grace, expires=moment_of(expires))
        await self._store.save(changed, new=False)
        return key

    async def revoke(self, name: str) -> None:
        """Its keys are refused from now on. What it has used stays known, and nobody else gets its name."""
        account = await self._account(name)
        await self._store.save(structs.replace(account, keys=(), revoked=self._clock()), new=False)

    async def remove(self, name: str) -> CallerInfo:
        """Its keys, limits and labels are gone, also if it was revoked. What it has used and what is remembered for it stay under
        its name, which may be given again. Returns what it was."""
        removed = await self.caller(name)
        await self._store.remove(name)
        return removed

    async def change(self, name: str, allowance: Allowance) -> None:
        account = await self._account(name)
        await self._store.save(structs.replace(account, allowance=allowance), new=False)

    async def allowance(self, name: str) -> Allowance:
        return (await self._account(name)).allowance

    async def caller(self, name: str) -> CallerInfo:
        """Also one that was revoked. Raises UsageError if there is none."""
        for account in await self._store.accounts():
            if account.name == name:
                return await self.info(account)
        raise _unknown(name)

    async def callers(self) -> list[CallerInfo]:
        return [await self.info(account) for account in await self._store.accounts()]

    async def usage(self, first: str, last: str) -> Sequence[UsageRow]:
        """Of these days, each as 2026-01-31; an empty first one: this month so far."""
        return await self._store.usage(*usage_days(first, last, self._clock()))

    async def info(self, account: Account) -> CallerInfo:
        """Also of an account that the configuration has."""
        standing, reserved = await self._store.standing(account.name)
        now = spend(standing, reserved.expired, self._clock())
        return CallerInfo(
            name=account.name,
            allowance=account.allowance,
            labels=account.labels,
            admin=account.admin,
            created=account.created,
            expires=account.keys[0].expires if account.keys else None,
            revoked=account.revoked,
            dollars_today=now.day_spent / MILLION,
            dollars_this_month=now.month_spent / MILLION,
            running=reserved.requests,
        )

    async def _account(self, name: str) -> Account:
        for account in await self._store.accounts():
            if account.name == name and account.revoked is None:
                return account
            if account.name == name:
                raise UsageError(
                    f'The caller "{name}" was revoked.',
                    code="unknown_caller",
                    hint="Make another, with another name: what the old one has used stays known under its own.",
                )
        raise _unknown(name)

    # Over HTTP

    async def answer(self, request: WebRequest, account: Account) -> WebResponse | None:
        """None if it has no such path. Raises for callers that are no operators."""
        path = _PATHS.fullmatch(request.path)
        if path is None:
            return None
        require_operator(account)
        try:
            return await self._perform(request, path[1].split("/"))
        except UsageError as error:
            status = {"unknown_caller": 404, "caller_exists": 409}.get(error.code, 400)
            raise InvalidRequestError(
                error.message, code=error.code, status=status, hint=error.hint
            ) from error

    async def _perform(self, request: WebRequest, path: list[str]) -> WebResponse | None:
        match [request.method, *path]:
            case "GET", "callers":
                return json_response({"callers": await self.callers()})
            case "GET", "usage":
                rows = await self.usage(request.query.get("from", ""), request.query.get("to", ""))
                return json_response({"usage": rows})
            case "POST", "callers":
                asked = _decoded(request, _NewCaller)
                key = await self.create(
                    asked.name, asked.allowance, labels=asked.labels, expires=asked.expires, admin=asked.admin
                )
                return json_response({"name": asked.name, "key": key})
            case "PUT", "callers", name:
                await self.change(name, _decoded(request, _Changes).allowance)
                return json_response({"name": name})
            case "POST", "callers", name, "rotate":
                rotation = _decoded(request, _Rotation)
                key = await self.rotate(name, grace=rotation.grace, expires=rotation.expires)
                return json_response({"name": name, "key": key})
            case "POST", "callers", name, "revoke":
                await self.revoke(name)
                return json_response({"name": name})
            case "DELETE", "callers", name:
                return json_response(await self.remove(name))
        return None


def _unknown(name: str) -> UsageError:
    return UsageError(
        f'There is no caller "{name}".',
        code="unknown_caller",
        hint="List them: segue gateway keys list. Those in the configuration are changed there.",
    )


def require_operator(account: Account) -> None:
    """Raises for everybody else."""
    if not account.admin:
        raise InvalidRequestError(
            "Only operators may do this.",
            code="operators_only",
            status=403,
            hint="Use a key made with: segue gateway keys create NAME --admin",
        )


def _decoded(request: WebRequest, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(request.body or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequestError(
            f"The body is not what this path takes: {error}.", code="bad_body", status=400
        ) from error
