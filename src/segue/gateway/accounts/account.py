"""A caller's account: the digests of its keys, and what it may use."""

from __future__ import annotations

import hashlib
import secrets
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct, structs

from segue.config.schema import Allowance
from segue.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

_PREFIX = "segue-"


@final
class KeyDigest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One key of an account. The key itself is nowhere."""

    sha256: str
    created: float = 0.0
    expires: float | None = None
    """Seconds since 1970; None: it does not expire."""

    def is_valid(self, now: float) -> bool:
        return self.expires is None or now < self.expires


@final
class Account(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Somebody who may use the gateway. What it has used and what is remembered for it belong to its name."""

    name: str
    keys: tuple[KeyDigest, ...] = ()
    allowance: Allowance = Allowance()
    labels: dict[str, str] = {}
    admin: bool = False
    """Whether it may also make and revoke keys and see everybody's usage."""
    created: float = 0.0
    revoked: float | None = None

    @property
    def is_limited(self) -> bool:
        """Whether its requests have to be counted before they are sent."""
        limits = self.allowance
        return (
            limits.requests_per_minute is not None
            or limits.tokens_per_minute is not None
            or limits.concurrent is not None
            or limits.dollars_per_day is not None
            or limits.dollars_per_month is not None
        )

    def may_use(self, asked: str, routes: Iterable[str]) -> bool:
        """Whether the name that the client asks for is allowed, or else every route that it may lead to."""
        patterns = self.allowance.models
        if not patterns or _matches(asked, patterns):
            return True
        led_to = list(routes)
        return bool(led_to) and all(_matches(route, patterns) for route in led_to)


ANYONE: Final = Account(name="local", admin=True)
"""The caller where there are no accounts: the gateway then serves this machine only, and its user is the operator."""


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def digest_of(key: str) -> str:
    """Keys are long and random, so that a plain digest cannot be guessed."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def new_key() -> str:
    return _PREFIX + secrets.token_urlsafe(32)


def rotated(account: Account, key: str, now: float, *, grace: float = 0.0, expires: float | None) -> Account:
    """The account with a new key; its old ones end after `grace` seconds at the latest."""
    end = now + grace
    old = tuple(
        structs.replace(known, expires=end if known.expires is None else min(known.expires, end))
        for known in account.keys
        if grace > 0 and known.is_valid(now)
    )
    return structs.replace(
        account, keys=(KeyDigest(sha256=digest_of(key), created=now, expires=expires), *old)
    )


def moment_of(text: str) -> float | None:
    """Seconds since 1970 of a day or time in ISO form, in UTC if it names no zone; None for an empty text."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            f'"{text}" is not a day or time.',
            code="bad_time",
            hint="Write it like 2027-01-31 or 2027-01-31T18:00.",
        ) from error
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
