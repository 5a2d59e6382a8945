"""Who looks at the pages. Always a login, on this machine too: its other users and programs reach the port as well.

`segue inspect` signs a token with the key of the installation, which only its owner can read. It is in the fragment of the
address, so no server, log or referrer gets it; the page posts it and gets a cookie for it. With callers, a key of one of them is
posted instead. The cookie is encrypted with the key of the installation; a key that is revoked ends it.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, final

import msgspec
from msgspec import Struct

from segue.gateway.accounts.account import Account, digest_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.gateway.accounts.register import Accounts
    from segue.gateway.memory.installation_key import InstallationKey

TOKEN_SECONDS: Final = 60
SESSION_SECONDS: Final = 12 * 3600
_NONCE: Final = 32
_STAMP: Final = 8
_PURPOSE: Final = "inspector login"
_MOST_USED: Final = 10_000
_MOST_COOKIE: Final = 2000


@final
class _Session(Struct, frozen=True, omit_defaults=True):
    """What a cookie holds."""

    id: str
    expires: float
    key: str = ""
    """The digest of the caller's key; empty for the user of this machine."""


@final
class Viewer(Struct, frozen=True):
    """Somebody who is logged in."""

    account: Account
    session: str
    csrf: str

    @property
    def name(self) -> str:
        return self.account.name

    @property
    def is_operator(self) -> bool:
        return self.account.admin


def new_token(key: InstallationKey, now: float | None = None) -> str:
    """Opens the pages once, within a minute."""
    stamp = int(time.time() if now is None else now).to_bytes(_STAMP, "big")
    body = secrets.token_bytes(_NONCE) + stamp
    return _encoded(body + key.digest(_PURPOSE, body))


@final
class Logins:
    """Of one process."""

    def __init__(self, key: InstallationKey, clock: Callable[[], float] = time.time) -> None:
        self._key = key
        self._clock = clock
        self._used: OrderedDict[bytes, None] = OrderedDict()
        self._ended: OrderedDict[str, None] = OrderedDict()

    def redeem(self, token: str) -> bool:
        """Whether a token of `segue inspect` is good; it is no more after that."""
        data = _decoded(token)
        body, signature = data[: _NONCE + _STAMP], data[_NONCE + _STAMP :]
        if len(body) != _NONCE + _STAMP or not hmac.compare_digest(
            signature, self._key.digest(_PURPOSE, body)
        ):
            return False
        age = self._clock() - int.from_bytes(body[_NONCE:], "big")
        if not -5 <= age <= TOKEN_SECONDS or body in self._used:
            return False
        _remember(self._used, body)
        return True

    def open(self, key: str = "") -> str:
        """The cookie of somebody with this caller's key; "": of the user of this machine."""
        digest = digest_of(key) if key else ""
        session = _Session(secrets.token_hex(16), self._clock() + SESSION_SECONDS, digest)
        return _encoded(self._key.encrypt(msgspec.json.encode(session), bound_to=b"segue inspector session"))

    async def viewer(self, cookie: str, accounts: Accounts) -> Viewer | None:
        """Whose cookie it is; None if it is nobody's, or not any more."""
        session = self._session(cookie)
        if session is None:
            return None
        account = await accounts.find_digest(session.key)
        if account is None:
            return None
        return Viewer(account, session.id, self.csrf(session.id))

    def session(self, cookie: str) -> str | None:
        """The session of the user of this machine; None if it is nobody's."""
        found = self._session(cookie)
        return found.id if found is not None and not found.key else None

    def close(self, session: str) -> None:
        _remember(self._ended, session)

    def csrf(self, session: str) -> str:
        """The word that a page of this session writes into the header of whatever changes something."""
        return _encoded(self._key.digest("inspector csrf", session))

    def _session(self, cookie: str) -> _Session | None:
        if not cookie or len(cookie) > _MOST_COOKIE:
            return None
        held = self._key.decrypt(_decoded(cookie), bound_to=b"segue inspector session")
        if held is None:
            return None
        session = msgspec.json.decode(held, type=_Session)
        over = session.id in self._ended or self._clock() >= session.expires
        return None if over else session


def _remember(held: OrderedDict[bytes, None] | OrderedDict[str, None], one: bytes | str) -> None:
    held[one] = None  # type: ignore[index]  # each table has its own kind
    while len(held) > _MOST_USED:
        held.popitem(last=False)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return b""
