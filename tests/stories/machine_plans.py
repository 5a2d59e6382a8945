"""What a machine may decide about a turn, small enough to read when an example fails."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from hypothesis import strategies as st

Act: TypeAlias = Literal[
    "ok", "slow", "json", "huge", "image", "nothing", "raise", "hang", "stubborn", "late", "delegated",
    "approved", "denied", "unanswered", "nowhere", "wrong",
]  # fmt: skip
"""What becomes of a call. Of the last five, three are up to who is asked; nobody has the tool, or it is misused."""


class Words(NamedTuple):
    """The model says something."""

    thinks: bool = False
    portions: int = 1
    finish: Literal["auto", "length", "content_filter"] = "auto"


class Calls(NamedTuple):
    """The model calls tools."""

    acts: tuple[Act, ...]
    words: bool = False
    thinks: bool = False
    finish: Literal["auto", "length"] = "auto"


class Silence(NamedTuple):
    """The model says nothing at all."""


Reply: TypeAlias = Words | Calls | Silence


class Fault(NamedTuple):
    """One answer is spoilt."""

    kind: str
    at: int = 0
    """The byte, or the status."""


class When(NamedTuple):
    """After so many events of a kind were heard; without a kind, after so many steps of the event loop."""

    number: int
    event: str = ""


class Meddle(NamedTuple):
    """What the user does while the turn runs."""

    when: When
    target: str = ""
    """Switch there. Empty: cancel. `intrude`: try what no chat does meanwhile. `close`: let go of the session."""


class Turn(NamedTuple):
    """One turn: what the model will say, what goes wrong, and what the user does meanwhile."""

    way: Literal["send", "stream", "leave", "drop"] = "send"
    """Wait for the end; hear all; hear `until` and leave; cancel the task that waits."""
    replies: tuple[Reply, ...] = ()
    faults: tuple[Fault, ...] = ()
    meddling: tuple[Meddle, ...] = ()
    until: When = When(0)
    image: bool = False


_acts = st.sampled_from(Act.__args__)  # type: ignore[attr-defined]
_words = st.builds(
    Words,
    thinks=st.booleans(),
    portions=st.sampled_from([1, 1, 4]),
    finish=st.sampled_from(["auto", "auto", "auto", "length", "content_filter"]),
)
_calls = st.builds(
    Calls,
    acts=st.lists(_acts, min_size=1, max_size=5).map(tuple),
    words=st.booleans(),
    thinks=st.booleans(),
    finish=st.sampled_from(["auto", "auto", "auto", "length"]),
)
_replies = st.one_of(_calls, _calls, _words, st.just(Silence()))
_faults = st.one_of(
    st.builds(Fault, st.just("status"), st.sampled_from([400, 401, 429, 500, 503, 529])),
    st.builds(Fault, st.sampled_from(["cut", "error_mid_stream"]), st.integers(0, 1500)),
    st.sampled_from([Fault("malformed"), Fault("empty"), Fault("content_type"), Fault("silence")]),
    st.just(Fault("too_long")),
)
_events = st.sampled_from(
    ["", "text", "reasoning", "tool_call_start", "tool_call_result", "turn_complete", "retry"]
)
whens = st.one_of(
    st.builds(When, st.integers(0, 80), st.just("")),
    st.builds(When, st.integers(80, 1200), st.just("")),
    st.builds(When, st.integers(1, 4), _events),
)


def turns(targets: tuple[str, ...]) -> st.SearchStrategy[Turn]:
    meddling = st.builds(
        Meddle, whens, st.one_of(st.sampled_from(["", "", "intrude", "close"]), st.sampled_from(targets))
    )
    return st.builds(
        Turn,
        way=st.sampled_from(["send", "stream", "stream", "leave", "drop"]),
        replies=st.lists(_replies, max_size=3).map(tuple),
        faults=st.one_of(st.just(()), st.lists(_faults, max_size=2).map(tuple)),
        meddling=st.one_of(st.just(()), st.lists(meddling, max_size=3).map(tuple)),
        until=whens,
        image=st.sampled_from([False, False, False, True]),
    )


def quiet_turns() -> st.SearchStrategy[Turn]:
    """Nothing goes wrong but tools."""
    replies = st.lists(_replies, min_size=1, max_size=2).map(tuple)
    return st.builds(
        Turn,
        way=st.just("stream"),
        replies=replies,
        faults=st.just(()),
        meddling=st.just(()),
        until=st.just(When(0)),
        image=st.just(value=False),
    )
