"""What a verification found: a file without content or keys, which can be attached to an issue."""

from __future__ import annotations

from typing import Literal, TypeAlias, final

import msgspec
from msgspec import Struct

Verdict: TypeAlias = Literal["accepted", "refused", "failed", "none"]
"""`failed`: no answer about the request itself (key, quota, network). `none`: nobody was asked."""


@final
class Answered(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one side did with a request."""

    verdict: Verdict
    status: int | None = None
    rule: str = ""
    """Of the emulator."""
    words: str = ""
    """Of the provider, redacted."""


@final
class Verified(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request, and what the provider and the emulator did with it."""

    probe: str
    provider: Answered
    emulator: Answered
    repairs: tuple[str, ...] = ()
    """Kinds of what was repaired to make it."""

    @property
    def differs(self) -> bool:
        both = {self.provider.verdict, self.emulator.verdict}
        return both == {"accepted", "refused"}


@final
class VerifyReport(Struct, frozen=True, kw_only=True):
    """All requests of one verification."""

    version: str
    provider: str
    model: str
    dialect: str
    emulated_model: str
    results: tuple[Verified, ...]
    rules: tuple[Verified, ...] = ()
    """Requests that the emulator refuses."""
    cost: float | None = None
    complete: bool = True
    """False if it was stopped: by a failure or by the limit of cost."""

    @property
    def findings(self) -> tuple[Verified, ...]:
        """What was refused though it was sent as we send it, and where the emulator is wrong."""
        refused = tuple(one for one in self.results if one.provider.verdict == "refused" or one.differs)
        return (*refused, *(one for one in self.rules if one.differs))

    def encode(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self)) + b"\n"
