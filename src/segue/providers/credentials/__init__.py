"""Tokens that expire: a cloud's own tools find the credentials, and one keeper per provider refreshes the token.

A `TokenSource` says how a token is fetched; it blocks, imports its cloud's package when it is first used, and is called in a
thread. The `TokenKeeper` holds the token, refreshes it ahead of its end, one refresh at a time, and never shows it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Lock
from typing import Final, Protocol, final

from msgspec import Struct, field

from segue.errors import CredentialsError, SegueError
from segue.providers.auth import Key, Secret, missing_key
from segue.redaction import forget_secret, redact_known, redact_text

AHEAD_SECONDS: Final = 300.0
"""A token that ends within this time is refreshed while it is still used."""
PAUSE_SECONDS: Final = 30.0
"""After a refresh ahead of time has failed, the next one waits so long: the token still holds."""


@final
class AccessToken(Struct, frozen=True):
    """A token, and when it ends, in seconds since 1970. `headers`: what goes with it, such as who pays."""

    secret: Secret
    expires_at: float
    headers: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return "AccessToken(***)"


class TokenSource(Protocol):
    """Where tokens of one cloud come from."""

    @property
    def title(self) -> str:
        """What a user calls it."""
        ...

    def fetch(self) -> AccessToken:
        """A new token. May take seconds and raise anything: called in a thread."""
        ...

    def check(self) -> None:
        """Raises CredentialsError if it is certain, without a request, that there is no token to be had."""
        ...

    def remedy(self) -> str:
        """What a user should do when no token comes."""
        ...


class Credentials(Protocol):
    """What a provider's requests are signed in with: a key or a token."""

    @property
    def known(self) -> bool:
        """Whether it was looked for already."""
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


@final
class TokenKeeper(Struct, eq=False):
    """Holds the token of one provider, and refreshes it before it ends."""

    source: TokenSource
    place: str
    """Where an error points: the provider's settings."""
    clock: Callable[[], float] = time.time
    _token: AccessToken | None = None
    _earlier: list[AccessToken] = []
    """Those that may still hold."""
    _lock: Lock = field(default_factory=Lock)
    _refreshing: asyncio.Task[None] | None = None
    _not_before: float = 0.0

    def __repr__(self) -> str:
        return f"TokenKeeper({self.source.title})"

    @property
    def known(self) -> bool:
        return self._token is not None

    async def ready(self) -> None:
        token, now = self._token, self.clock()
        if token is None or token.expires_at <= now:
            await asyncio.to_thread(self._refresh, token)
        elif token.expires_at - now <= AHEAD_SECONDS and now >= self._not_before:
            self._refresh_beside(token)

    def headers(self) -> Mapping[str, str]:
        token = self._token
        if token is None or token.expires_at <= self.clock():
            token = self._refresh(token)
        return {"authorization": f"Bearer {token.secret.reveal()}", **token.headers}

    def forget(self) -> None:
        self._token = None

    def check(self) -> None:
        self.source.check()

    def is_offered(self) -> bool:
        try:
            self.source.check()
        except CredentialsError:
            return False
        return True

    def _refresh_beside(self, token: AccessToken) -> None:
        """Fetch the next token in a task; requests go on with this one. Never two tasks at a time."""
        if self._refreshing is not None and not self._refreshing.done():
            return
        self._not_before = self.clock() + PAUSE_SECONDS

        async def refresh() -> None:
            # The old token holds; once it has ended, the request that needs a new one reports what is wrong.
            with suppress(SegueError):
                await asyncio.to_thread(self._refresh, token)

        self._refreshing = asyncio.ensure_future(refresh())

    def _refresh(self, old: AccessToken | None) -> AccessToken:
        """A token that is not `old`. Whoever waits for the lock takes what the one before has fetched."""
        with self._lock:
            if self._token is not None and self._token is not old:
                return self._token
            try:
                self._token = self.source.fetch()
            except CredentialsError:
                raise
            except Exception as error:
                raise self._failure(error) from None
            self._forget_ended(old)
            return self._token

    def _forget_ended(self, old: AccessToken | None) -> None:
        now = self.clock()
        earlier = [*self._earlier, *([old] if old is not None else [])]
        self._earlier = [token for token in earlier if token.expires_at > now]
        for token in earlier:
            if token.expires_at <= now:
                forget_secret(token.secret.reveal())

    def _failure(self, error: Exception) -> CredentialsError:
        # The words of a cloud's own package help to find the cause; what it was given must not be in them.
        words = redact_known(redact_text(" ".join(str(error).split())))[:300] or type(error).__name__
        return CredentialsError(
            f"{self.source.title} gives no token: {words}",
            code="no_token",
            path=self.place,
            hint=self.source.remedy(),
        )


@final
class KeyOrToken(Struct, eq=False):
    """A key if there is one, else a token."""

    key: Key
    token: TokenKeeper

    def __repr__(self) -> str:
        return f"KeyOrToken({self.key!r}, {self.token!r})"

    @property
    def known(self) -> bool:
        return self._used.known

    @property
    def _used(self) -> Key | TokenKeeper:
        return self.key if self.key.find() is not None else self.token

    async def ready(self) -> None:
        await self.key.ready()
        if self.key.find() is None:
            self.check()
            await self.token.ready()

    def headers(self) -> Mapping[str, str]:
        if self.key.find() is None:
            self.check()
        return self._used.headers()

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
