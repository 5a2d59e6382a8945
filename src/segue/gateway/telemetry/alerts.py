"""What an operator should look at: budgets that are nearly spent, routes that rest, stores that do not answer.

After requests, at most every few seconds, the gateway is looked at. Each alert is sent once to a webhook, and once more when a route
or a store is back. Prometheus gets the same figures as gauges.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final

import msgspec
from msgspec import Struct, structs

from segue.errors import SegueError
from segue.transports.http import DEFAULT_TRANSPORT
from segue.transports.transport import Timeouts, WireRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable

    from segue.config.schema import AlertSettings
    from segue.gateway.telemetry.report import RequestReport
    from segue.transports.transport import Transport

LOCK_VARIABLE: Final = "SEGUE_ALERT_LOCK"
"""Names a file that all workers of a gateway share: the one that holds its lock sends the alerts."""
_SECONDS: Final = 5.0
_MOST_WAITING: Final = 100
_TIMEOUTS: Final = Timeouts(connect=5.0, first_byte=10.0, total=15.0)
_WINDOWS: Final = {"day": "of today", "month": "of this month"}
_LOG: Final = logging.getLogger("segue.gateway")


@final
class BudgetUse(Struct, frozen=True, kw_only=True):
    """How much of one budget of a caller is spent."""

    caller: str
    window: Literal["day", "month"]
    began: str
    """The day as 2026-01-31, or the month as 2026-01."""
    spent: float
    """Dollars."""
    limit: float

    @property
    def share(self) -> float:
        return self.spent / self.limit if self.limit else 1.0


@final
class Observation(Struct, frozen=True, kw_only=True):
    """The state of a gateway at one moment."""

    budgets: tuple[BudgetUse, ...] = ()
    """Of callers that have sent requests since the last look."""
    routes: Mapping[str, str] = {}
    """Members of profiles: the last error of those that rest, empty for the others."""
    stores: Mapping[str, bool] = {}
    """Whether each store answers."""


Observe: TypeAlias = "Callable[[Collection[str]], Awaitable[Observation]]"
"""Looks at a gateway; gets the callers whose budgets may have changed."""


@final
class Alert(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body that a webhook gets. Chat programs show its `text`."""

    id: str
    """The same from every gateway, so that a receiver can drop a repetition."""
    alert: Literal["budget", "route", "store"]
    text: str
    resolved: bool = False
    caller: str = ""
    window: str = ""
    percent: int | None = None
    spent: float | None = None
    limit: float | None = None
    route: str = ""
    store: str = ""


def alerts_for(seen: Observation, percents: Iterable[int]) -> dict[str, Alert]:
    """By their ids: the highest mark that each budget has passed, routes that rest, stores that do not answer."""
    found = [_budget_alert(one, percents) for one in seen.budgets]
    for route, error in seen.routes.items():
        if error:
            text = f"{route} rests after repeated failures; other members answer. Its last error: {error}"
            found.append(Alert(id=f"route/{route}", alert="route", text=text, route=route))
    for store, answers in seen.stores.items():
        if not answers:
            text = f"The {store} store of the gateway does not answer."
            found.append(Alert(id=f"store/{store}", alert="store", text=text, store=store))
    return {one.id: one for one in found if one is not None}


def _budget_alert(one: BudgetUse, percents: Iterable[int]) -> Alert | None:
    passed = [mark for mark in percents if one.share * 100 >= mark]
    if not passed:
        return None
    mark = max(passed)
    refused = f" Its requests are refused until the {one.window} ends (UTC)." if one.share >= 1 else ""
    return Alert(
        id=f"budget/{one.caller}/{one.began}/{mark}",
        alert="budget",
        text=f"{one.caller} has spent ${one.spent:.2f} of its budget of ${one.limit:.2f} {_WINDOWS[one.window]} "
        f"({one.share:.0%}).{refused}",
        caller=one.caller,
        window=one.window,
        percent=mark,
        spent=round(one.spent, 6),
        limit=one.limit,
    )


@final
class AlertWatch:
    """Looks at one gateway process after its requests, and needs no time without any."""

    def __init__(
        self,
        settings: AlertSettings,
        observe: Observe,
        *,
        measure: Callable[[Observation], object] | None = None,
        transport: Transport = DEFAULT_TRANSPORT,
        seconds: float = _SECONDS,
    ) -> None:
        """`measure`: the gauges of Prometheus, if it is on."""
        self._url = os.environ.get(settings.webhook_env, "") if settings.webhook_env else ""
        self._percents = tuple(settings.budget_percent)
        self._observe = observe
        self._measure = measure
        self._transport = transport
        self._seconds = seconds
        self._callers: set[str] = set()
        self._open: dict[str, Alert] = {}
        self._waiting: list[Alert] = []
        self._lock: int | None = None
        self._task: asyncio.Task[None] | None = None

    def record(self, report: RequestReport) -> None:
        """A request has ended: look soon."""
        if report.caller:
            self._callers.add(report.caller)
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._look_until_quiet())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    async def _look_until_quiet(self) -> None:
        """Again while something is amiss: that it is over is reported without a request, too."""
        while True:
            await asyncio.sleep(self._seconds)
            await self.look()
            if not (self._callers or self._waiting or any(_ends(one) for one in self._open.values())):
                return

    async def look(self) -> None:
        callers, self._callers = self._callers, set()
        try:
            seen = await self._observe(callers)
        except SegueError as error:
            _LOG.warning("The gateway could not be looked at for alerts: %s", error)
            return
        if self._measure is not None:
            self._measure(seen)
        if self._url and self._is_sender():
            now = alerts_for(seen, self._percents)
            self._waiting += [one for name, one in now.items() if name not in self._open]
            over = [one for name, one in self._open.items() if _ends(one) and name not in now]
            self._waiting += [_resolved(one) for one in over]
            self._open = {**self._open, **now}
            for one in over:
                del self._open[one.id]
            del self._waiting[:-_MOST_WAITING]
            await self._send()

    async def _send(self) -> None:
        """In order. What cannot be sent now is sent after the next look."""
        while self._waiting:
            request = WireRequest(
                url=self._url,
                headers={"content-type": "application/json"},
                body=msgspec.json.encode(self._waiting[0]),
                timeouts=_TIMEOUTS,
                whole=True,
            )
            try:
                async with self._transport(request) as response:
                    await response.read()
                    status = response.status
            except SegueError as error:
                # Neither the address nor the error is shown: the address of a webhook is a secret.
                _LOG.warning("An alert could not be sent: %s", error.code)
                return
            if status >= 500 or status == 429:
                _LOG.warning("An alert could not be sent: the webhook answered with HTTP %d", status)
                return
            if status >= 300:
                _LOG.error("The webhook refuses an alert with HTTP %d: %s", status, self._waiting[0].text)
            del self._waiting[0]

    def _is_sender(self) -> bool:
        """One of several workers, as long as it lives."""
        path = os.environ.get(LOCK_VARIABLE)
        if self._lock is not None or not path:
            return True
        import fcntl  # noqa: PLC0415 - several workers need a POSIX system

        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            return False
        self._lock = lock
        return True


def _ends(alert: Alert) -> bool:
    """A budget is whole again with the next day, which nobody needs to be told."""
    return alert.alert != "budget"


def _resolved(alert: Alert) -> Alert:
    what = alert.route or f"The {alert.store} store"
    return structs.replace(alert, resolved=True, text=f"{what} answers again.")
