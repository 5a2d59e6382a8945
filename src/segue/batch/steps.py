"""What a batch needs next, as data: decided from what is in its file alone, so any process can continue it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, final

from msgspec import Struct

from segue.batch.state_file import Part

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from segue.batch.state_file import Mode


@final
class Recover(Struct, frozen=True):
    """A part was perhaps handed over: look for it at the provider, and hand it over only if it is not there."""

    part: Part


@final
class HandOver(Struct, frozen=True):
    """Make the next part of the requests that wait, and hand it over."""


@final
class AskSingly(Struct, frozen=True):
    """Send what waits, one request at a time."""


@final
class Cancel(Struct, frozen=True):
    """Ask the provider to stop."""

    part: Part


@final
class TakeResults(Struct, frozen=True):
    """A part has ended at the provider: take its results."""

    part: Part


@final
class Look(Struct, frozen=True):
    """Parts are running: see how far they are."""

    parts: tuple[Part, ...]


@final
class Complete(Struct, frozen=True):
    """Every request has an outcome."""


Step: TypeAlias = Recover | HandOver | AskSingly | Cancel | TakeResults | Look | Complete


def next_step(mode: Mode, counts: Mapping[str, int], parts: Sequence[Part], *, cancelled: bool) -> Step:
    """`counts`: requests by their state."""
    begun = next((part for part in parts if part.state == "begun"), None)
    if begun is not None:
        return Recover(begun)
    if mode == "single":
        # What was asked when a process was killed has no answer that could be looked up: it is asked again.
        return AskSingly() if counts.get("waiting") or counts.get("asked") else Complete()
    running = [part for part in parts if part.state == "running"]
    over = [part for part in running if part.batch is not None and part.batch.state != "running"]
    if over:
        return TakeResults(over[0])
    if counts.get("waiting") and not cancelled:
        return HandOver()
    if cancelled and (still := next((part for part in running if not part.cancelled), None)):
        return Cancel(still)
    return Look(tuple(running)) if running else Complete()
