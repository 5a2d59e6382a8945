"""What expires: a cloud's own tools find the credentials, and one keeper per provider refreshes them.

A `Source` says how they are fetched; it blocks, imports its cloud's package when it is first used, and is called in a thread.
The `Keeper` holds them, refreshes them ahead of their end, one refresh at a time, and never shows them. Most clouds give a
token, which requests carry; with those of AWS requests are signed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Lock
from typing import Final, Generic, Protocol, TypeVar, final

from msgspec import Struct, field

from segue.errors import CredentialsError, SegueError
from segue.providers.credentials.keys import Key, Secret, missing_key
from segue.text.redaction import forget_secret, redact_known, redact_text

AHEAD_SECONDS: Final = 300.0
"""A token that ends within this time is refreshed while it is still used."""
PAUSE_SECONDS: Final = 30.0
"""After a refresh ahead of time has failed, the next one waits so long: the token still holds."""


class Lasting(Protocol):
    """What holds until a moment, in seconds since 1970."""

    @property
    def expires_at(self) -> float: ...

    def forget(self) -> None:
        """It has ended, and is no secret any more."""
        ...


Held = TypeVar("Held", bound=Lasting)
Given_co = TypeVar("Given_co", bound=Lasting, covariant=True)


@final
class AccessToken(Struct, frozen=True):
    """A token, and when it ends, in seconds since 1970. `headers`: what goes with it, such as who pays."""

    secret: Secret
    expires_at: float
    headers: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return "AccessToken(***)"

    def forget(self) -> None:
        forget_secret(self.secret.reveal())


class Source(Protocol[Given_co]):
    """Where the tokens or credentials of one cloud come from."""

    @property
    def title(self) -> str:
        """What a user calls it."""
        ...

    def fetch(self) -> Given_co:
        """New ones. May take seconds and raise anything: called in a thread."""
        ...

    def check(self) -> None:
        """Raises CredentialsError if it is certain, without a request, that there are none to be had."""
        ...

    def remedy(self) -> str:
        """What a user should do when none come."""
        ...


class Credentials(Protocol):
    """What a provider's requests are signed in with: a key or a token."""

    @property
    def known(self) -> bool:
        """Whether it was looked for already, so that `headers` does not block."""
        ...

    async def ready(self) -> None:
        """Find it, or refresh it, without blocking the event loop."""
        ...

    def headers(self) -> Mapping[str, str]:
        """What a request carries. Raises CredentialsError if there is none."""
        ...

    def forget(self) -> None:
        """The provider refused it: it is looked for again."""
        ...

    def check(self) -> None:
        """Raises what is wrong with it, as far as that shows without a request."""
        ...

    def is_offered(self) -> bool:
        """Whether there is something to sign in with, as far as that shows without a request."""
        ...


class Keeper(Struct, Generic[Held], eq=False):
    """Holds the token or the credentials of one provider, and refreshes them before they end."""

    source: Source[Held]
    place: str
    """Where an error points: the provider's settings."""
    clock: Callable[[], float] = time.time
    ahead: float = AHEAD_SECONDS
    _held: Held | None = None
    _earlier: list[Held] = []
    """Those that may still hold."""
    _lock: Lock = field(default_factory=Lock)
    _refreshing: asyncio.Task[None] | None = None
    _not_before: float = 0.0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.source.title})"

    @property
    def known(self) -> bool:
        return self._held is not None and self._held.expires_at > self.clock()

    async def ready(self) -> None:
        held, now = self._held, self.clock()
        if held is None or held.expires_at <= now:
            await asyncio.to_thread(self._refresh, held)
        elif held.expires_at - now <= self.ahead and now >= self._not_before:
            self._refresh_beside(held)

    def current(self) -> Held:
        """What holds now. Blocks if that must be fetched."""
        held = self._held
        return self._refresh(held) if held is None or held.expires_at <= self.clock() else held

    def forget(self) -> None:
        self._held = None

    def check(self) -> None:
        self.source.check()

    def is_offered(self) -> bool:
        try:
            self.source.check()
        except CredentialsError:
            return False
        return True

    def _refresh_beside(self, held: Held) -> None:
        """Fetch the next one in a task; requests go on with this one. Never two tasks at a time."""
        if self._refreshing is not None and not self._refreshing.done():
            return
        self._not_before = self.clock() + PAUSE_SECONDS

        async def refresh() -> None:
            # The old one holds; once it has ended, the request that needs a new one reports what is wrong.
            with suppress(SegueError):
                await asyncio.to_thread(self._refresh, held)

        self._refreshing = asyncio.ensure_future(refresh())

    def _refresh(self, old: Held | None) -> Held:
        """One that is not `old`. Whoever waits for the lock takes what the one before has fetched."""
        with self._lock:
            if self._held is not None and self._held is not old:
                return self._held
            try:
                new = self._held = self.source.fetch()
            except CredentialsError:
                raise
            except Exception as error:
                raise self._failure(error) from None
            self._forget_ended(old)
            return new

    def _forget_ended(self, old: Held | None) -> None:
        now = self.clock()
        earlier = [*self._earlier, *([old] if old is not None else [])]
        self._earlier = [each for each in earlier if each.expires_at > now]
        for each in earlier:
            if each.expires_at <= now:
                each.forget()

    def _failure(self, error: Exception) -> CredentialsError:
        # The words of a cloud's own package help to find the cause; what it was given must not be in them.
        words = redact_known(redact_text(" ".join(str(error).split())))[:300] or type(error).__name__
        return CredentialsError(
            f"{self.source.title} gives no credentials: {words}",
            code="no_token",
            path=self.place,
            hint=self.source.remedy(),
        )


@final
class TokenKeeper(Keeper[AccessToken], eq=False):
    """The same for a token, which requests carry."""

    def headers(self) -> Mapping[str, str]:
        token = self.current()
        return {"authorization": f"Bearer {token.secret.reveal()}", **token.headers}


@final
class KeyOrToken(Struct, eq=False):
    """A key if there is one, else a token."""

    key: Key
    token: TokenKeeper

    def __repr__(self) -> str:
        return f"KeyOrToken({self.key!r}, {self.token!r})"

    @property
    def known(self) -> bool:
        return self.key.known and self._used.known

    @property
    def _used(self) -> Key | TokenKeeper:
        return self.key if self.key.find() is not None else self.token

    async def ready(self) -> None:
        await self.key.ready()
        if self.key.find() is None:
            if not self.token.known:
                self.check()
            await self.token.ready()

    def headers(self) -> Mapping[str, str]:
        used = self._used
        if not used.known:
            self.check()
        return used.headers()

    def forget(self) -> None:
        self._used.forget()

    def check(self) -> None:
        used = self._used
        try:
            used.check()
        except CredentialsError as error:
            if used is self.key or error.code != "missing_key":
                raise
            missing = missing_key(self.key.address, self.key.sources.variable)
            missing.hint = f"{missing.hint} {error.hint}"
            raise missing from None

    def is_offered(self) -> bool:
        return self.key.is_offered() or self.token.is_offered()


def not_installed(title: str, extra: str, place: str) -> CredentialsError:
    """The package that finds a cloud's credentials is not there."""
    return CredentialsError(
        f"{title} needs a package that is not installed.",
        code="missing_package",
        path=place,
        hint=f"Run: pip install 'segue-llm[{extra}]'",
    )
