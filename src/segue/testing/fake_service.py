"""A service whose next replies and faults a test chooses: what a provider is checked against.

`EmulatedService` uses segue's own emulators. Authors of other providers write their own, or skip the checks that need
one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from segue.emulators.faults import Fault
from segue.emulators.model.model_reply import Call, Reply, Say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.emulators.server import Served

ServiceFault: TypeAlias = Literal["cut", "malformed", "html", "empty", "drip", "silence"]
"""What may happen to the next answer: it breaks off, is garbled, is a web page, is nothing, comes byte by byte, or does
not come for half a minute."""


_FAULTS: dict[ServiceFault, Fault] = {
    "cut": Fault(kind="cut", at_byte=40),
    "malformed": Fault(kind="malformed"),
    "html": Fault(kind="content_type"),
    "empty": Fault(kind="empty"),
    "drip": Fault(kind="drip", size=1, seconds=0.0),
    "silence": Fault(kind="silence", seconds=30.0),
}


class FakeService(Protocol):
    """Plays the service behind a provider. Each method prepares the next answer."""

    def says(self, text: str, *, seconds_between: float = 0.0) -> None: ...

    def calls(self, *requested: tuple[str, Mapping[str, Any]]) -> None: ...

    def refuses(self, status: int, *, retry_after: float | None = None) -> None: ...

    def fails(self, fault: ServiceFault) -> None: ...

    def forget(self) -> None:
        """Drop what was prepared and not yet played."""
        ...

    def hung_up(self) -> int:
        """How many clients have gone away in the middle of an answer."""
        ...

    def refused(self) -> list[str]:
        """What the service found wrong with requests so far, in its own words."""
        ...


class EmulatedService:
    """A provider of a running emulator."""

    def __init__(self, served: Served, provider: str) -> None:
        self.served = served
        self.provider = provider

    @property
    def url(self) -> str:
        return self.served.url(self.provider)

    def says(self, text: str, *, seconds_between: float = 0.0) -> None:
        self._responder.add(Reply(pieces=(Say(text),), delay=seconds_between))

    def calls(self, *requested: tuple[str, Mapping[str, Any]]) -> None:
        self._responder.add(Reply(pieces=tuple(Call(name, arguments) for name, arguments in requested)))

    def refuses(self, status: int, *, retry_after: float | None = None) -> None:
        self._spoil(Fault(status=status, retry_after=retry_after))

    def fails(self, fault: ServiceFault) -> None:
        self._spoil(_FAULTS[fault])

    def forget(self) -> None:
        self._responder.queue.clear()
        self.served.emulator.faults.clear()

    def hung_up(self) -> int:
        return self.served.emulator.hung_up

    def refused(self) -> list[str]:
        return [
            f"{entry.rule}: {entry.message}"
            for entry in self.served.emulator.log
            if entry.verdict == "refused" and entry.provider == self.provider
        ]

    @property
    def _responder(self) -> Any:
        return self.served.emulator.responder

    def _spoil(self, fault: Fault) -> None:
        self.served.emulator.faults.append(fault)
