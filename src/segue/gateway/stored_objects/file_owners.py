"""Who uploaded a file through the gateway. At a provider all callers may have one account, so its id alone would open it to each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, final

from segue.gateway.accounts.account import ANYONE

if TYPE_CHECKING:
    from segue.gateway.memory.memory import Memory

_KIND: Final = "owner of a file"
_GEMINI: Final = re.compile(r"(?:.*/)?files/([^/?:#]+)")
"""The name of a file, or its address at whichever host."""


@final
class FileOwners:
    """Those of all files that were uploaded here, or written for a batch."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def put(self, caller: str, file: str) -> None:
        if file and caller != ANYONE.name:
            await self._memory.put_object("", _KIND, _id(file), caller.encode())

    async def is_anothers(self, caller: str, file: str) -> bool:
        owner = await self._memory.get_object("", _KIND, _id(file))
        return owner is not None and owner.decode() != caller


def _id(file: str) -> str:
    found = _GEMINI.match(file)
    return found[1] if found is not None else file
