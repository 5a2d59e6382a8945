"""Whether the gateway can do all that it should: what `GET /readyz` answers.

Strangers may ask, so that the stores are asked once a second at most, and the answer names no address.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Final, final

from segue.errors import JournalError
from segue.gateway.requests.web import WebResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.gateway.accounts.store import AccountStore
    from segue.gateway.memory.store import GatewayStore

_KNOWN_SECONDS: Final = 1.0


@final
class Readiness:
    """Of one gateway process."""

    def __init__(self, memory: GatewayStore, accounts: AccountStore) -> None:
        self._stores: Mapping[str, GatewayStore | AccountStore] = {"memory": memory, "accounts": accounts}
        self.stores = tuple(self._stores)
        """Their names."""
        self._missing: list[str] = []
        self._asked = float("-inf")
        self._asking: asyncio.Task[None] | None = None

    async def answer(self, query: Mapping[str, str], *, draining: bool) -> WebResponse:
        """With `store=no` only whether it accepts requests: most are answered without the stores."""
        if draining:
            return _plain(503, "draining")
        if query.get("store") == "no":
            return _plain(200, "ready")
        if missing := await self.missing_stores():
            return _plain(503, f"The store does not answer: {' and '.join(missing)}")
        return _plain(200, "ready")

    async def missing_stores(self) -> list[str]:
        """The names of those that do not answer."""
        if self._asking is None and monotonic() - self._asked >= _KNOWN_SECONDS:
            self._asking = asyncio.ensure_future(self._ask())
        if self._asking is not None:
            await asyncio.wait([self._asking])
        return self._missing

    async def _ask(self) -> None:
        try:
            answers = await asyncio.gather(*map(_answers, self._stores.values()))
            self._missing = [name for name, here in zip(self._stores, answers, strict=True) if not here]
        finally:
            self._asked, self._asking = monotonic(), None


async def _answers(store: GatewayStore | AccountStore) -> bool:
    try:
        await store.check()
    except JournalError:
        return False
    return True


def _plain(status: int, text: str) -> WebResponse:
    return WebResponse(status=status, headers={"content-type": "text/plain"}, body=f"{text}\n".encode())
