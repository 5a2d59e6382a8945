"""Events of a reply while it arrives: in batches, the end of the reply alone, with what only its response knows."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from msgspec import structs

from segue.conversation.events import CallStarted, Event, Failed, Finished
from segue.dialects.errors import request_id
from segue.errors import ProtocolError, ProviderError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.providers.adapter import StreamEvent

EVENTS_AT_ONCE: Final = 100
ENDS: Final = frozenset[type]({Finished, Failed})
_LOG: Final = logging.getLogger(__name__)


def check_unread(name: str, unread: list[bytes], call_marks: tuple[bytes, ...]) -> None:
    """A line that cannot be read is dropped and logged; but a call with a gap in it must not be run."""
    _LOG.warning("%s: %d line(s) of a reply could not be read and were dropped", name, len(unread))
    if any(mark in line for line in unread for mark in call_marks):
        raise ProtocolError(
            f"A tool call in the reply of {name} could not be read.",
            code="malformed_call",
            hint="Ask again.",
        )


def with_own_names(events: list[Event], names: dict[str, str]) -> list[Event]:
    """The events with the conversation's own names of tools."""
    if not names:
        return events
    return [
        structs.replace(event, name=names.get(event.name, event.name))
        if type(event) is CallStarted
        else event
        for event in events
    ]


def before_last_calls(events: list[Event], number: int) -> list[Event]:
    """The events before the last `number` calls begin."""
    for place in range(len(events) - 1, -1, -1):
        if type(events[place]) is CallStarted:
            number -= 1
            if not number:
                return events[:place]
    return []


def in_batches(events: list[Event], headers: Mapping[str, str], unread: int) -> list[list[StreamEvent]]:
    """Not too many at once, and the end of a reply alone. `unread`: how many lines could not be read so far."""
    if len(events) <= EVENTS_AT_ONCE and ENDS.isdisjoint(map(type, events)):
        return [[*events]] if events else []
    batches: list[list[StreamEvent]] = [[]]
    for event in events:
        ends = type(event) in ENDS
        if batches[-1] and (ends or len(batches[-1]) == EVENTS_AT_ONCE):
            batches.append([])
        batches[-1].append(_completed(event, headers, unread) if ends else event)
        if ends:
            batches.append([])
    return [batch for batch in batches if batch]


def _completed(end: Event, headers: Mapping[str, str], unread: int) -> Event:
    """An error in mid-stream has the request id of its response too, and an end the count of what was not read."""
    match end:
        case Failed(error) if isinstance(error, ProviderError) and not error.request_id:
            error.request_id = request_id(headers)
        case Finished() if unread:
            return structs.replace(end, unread=unread)
    return end


def too_many_calls(name: str, most: int) -> ProtocolError:
    return ProtocolError(
        f"The reply of {name} has more than {most} tool calls.",
        code="too_many_calls",
        hint=f"Ask again, or allow more: providers.{name}.limits.calls.",
    )
