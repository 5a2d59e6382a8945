"""A saved session of the chat as the pages show conversations: its journal has what the recorder takes from the gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segue.inspector.markup import words
from segue.inspector.markup.html import Node, e
from segue.inspector.markup.shell import Page, head, section
from segue.inspector.pages.cache import request_table
from segue.inspector.pages.conversation import plot, seam_block, turn_article
from segue.inspector.record.records import RequestRecord
from segue.inspector.views.cache_causes import misses_of, outcomes_of
from segue.inspector.views.chat_view import seams_of, turns_of
from segue.sessions.entries import ModelReplied, Record, Switched, UserSaid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.sessions.state import State

_TITLE: Final = 80
"""Letters of the first prompt that stand for a title."""


def requests_of(records: Sequence[Record]) -> list[RequestRecord]:
    """The requests behind the replies of a journal. What was repaired in them is only counted there."""
    found: list[RequestRecord] = []
    turn, begins, switched, asked_at, messages = 0, True, "", 0.0, 0
    for record in records:
        entry = record.entry
        if isinstance(entry, UserSaid):
            turn, begins, asked_at = turn + 1, True, record.at
        elif isinstance(entry, Switched):
            switched = entry.model
        if not isinstance(entry, ModelReplied):
            messages += isinstance(entry, UserSaid)
            asked_at = record.at
            continue
        origin = entry.message.origin
        route = f"{origin.provider}/{origin.model}" if origin is not None else ""
        found.append(
            RequestRecord(
                id=f"entry-{record.seq}",
                conversation="session",
                caller="",
                number=len(found) + 1,
                turn=max(turn, 1),
                began=asked_at or record.at,
                seconds=max(record.at - (asked_at or record.at), 0.0),
                route=route,
                dialect=origin.dialect if origin is not None else "",
                switched=switched,
                begins_turn=begins,
                messages=messages,
                usage=entry.usage,
                dollars=entry.cost,
                calls=len(entry.message.calls),
            )
        )
        begins, asked_at, messages = False, record.at, messages + 1
    return found


def session_page(state: State, records: Sequence[Record], name: str, *, waits: Node = None) -> Page:
    """`waits`: what its last turn waits for."""
    requests = requests_of(records)
    turns_counted = max((one.turn for one in requests), default=0)
    turns = turns_of(state.history, requests, turns_counted)
    seams, misses = seams_of(requests), misses_of(requests)
    most = max((turn.usage.total_tokens or 0 for turn in turns), default=1)
    ahead = len(turns) - turns_counted
    shown: list[Node] = []
    for place, turn in enumerate(turns):
        if (seam := seams.get(place + 1 - ahead)) is not None:
            shown.append(seam_block(seam))
        lost = [misses[one].said for one in turn.requests if one in misses]
        shown.append(turn_article(turn, most, lost, linked=False))
    dollars = [one.dollars for one in requests if one.dollars is not None]
    line = " · ".join(
        (
            f"session {name}",
            f"{words.count(len(turns), 'turn')}, {words.count(len(requests), 'request')}",
            words.cost(sum(dollars) if dollars else None),
            f"next: {state.model}" if state.model else "",
        )
    )
    outcomes = {one.request: one for one in outcomes_of(requests)}
    largest = max((one.usage.input_tokens or 0 for one in requests), default=1)
    counted = [one for one in requests if one.usage.total_tokens]
    title = state.title or next((turn.asked[:_TITLE] for turn in turns if turn.asked), "") or "Session"
    body: list[Node] = [
        head(title, line),
        plot(requests, misses),
        e("div", shown, id="turns"),
        waits,
        section("Cache and cost", request_table(counted, outcomes, largest, linked=False))
        if counted
        else None,
    ]
    return Page(
        title=title,
        tab="session",
        body=body,
        data={"session": name, "turns": turns, "seams": list(seams.values())},
        foot=e("span", f"Resume with: segue -r {name}"),
        keys=(("j k", "turns"), ("x", "seams"), ("y", "copy link")),
    )
