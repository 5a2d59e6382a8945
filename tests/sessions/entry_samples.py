"""What may happen to a session: entries in any order that fits, as a runtime could have written them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from segue.conversation.blocks import Block, Reasoning, Text, ToolCall, ToolResult
from segue.conversation.interaction import Interaction
from segue.conversation.message import Conversation, Message
from segue.conversation.options import Options
from segue.conversation.usage import Usage
from segue.sessions.entries import (
    Adopted,
    CallBegun,
    CallEnded,
    CallsScheduled,
    Compacted,
    Entry,
    ModelReplied,
    NoteAdded,
    Rewound,
    SessionStarted,
    SettingsChanged,
    Switched,
    ToolsAnswered,
    TurnEnded,
    TurnResumed,
    UserSaid,
)
from segue.sessions.entry_codec import EncodedEntry
from segue.sessions.state import State, refuse_misfits
from strategies.histories import FOREIGN, strange_values

MODELS = ("one/a", "two/b")
texts = st.sampled_from(("hello", "naïve ✓", "lone \ud83d half", " ", "nul \x00"))
outputs = st.sampled_from(("fine", "", 0, {"a": [1, 2]})) | strange_values.filter(
    lambda value: value is not None
)


class Telling:
    """Writes entries down and keeps the state they lead to, as a journal would."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.state = State()
        self.entries: list[Entry] = []

    def write(self, entry: Entry) -> None:
        kept = EncodedEntry.of(entry).entry
        refuse_misfits(self.state, (kept,))
        self.entries.append(kept)
        self.state.apply(len(self.entries), kept)

    def pick(self, *values: Any) -> Any:
        return self.draw(st.sampled_from(values))


@st.composite
def happenings(draw: st.DrawFn, *, max_turns: int = 4) -> list[Entry]:
    """A whole session: nothing in it is left open."""
    telling = Telling(draw)
    telling.write(
        SessionStarted(model="one/a", system=telling.pick("", "Be brief."), options=Options(seed=1))
    )
    if draw(st.booleans()):
        telling.write(_adopted())
    for _ in range(draw(st.integers(1, max_turns))):
        _between_turns(telling)
        _turn(telling)
    _between_turns(telling)
    return telling.entries


def _adopted() -> Adopted:
    call = ToolCall("c3", "read", {"path": "x"})
    result = ToolResult("c3", "read", "contents")
    said = (
        Message("user", (Text("earlier"),)),
        Message("model", (call,), FOREIGN),
        Message("tool", (result,)),
        Message("model", (Text("then"),), FOREIGN),
    )
    return Adopted(
        conversation=Conversation(said), interactions=(Interaction(call, result),), source="a file"
    )


def _between_turns(telling: Telling) -> None:
    for _ in range(telling.draw(st.integers(0, 2))):
        state = telling.state
        match telling.pick("switch", "settings", "undo", "redo", "anywhere", "compact"):
            case "switch":
                telling.write(Switched(previous=state.model, model=telling.pick(*MODELS)))
            case "settings":
                telling.write(
                    SettingsChanged(title=telling.pick(None, "title"), system=telling.pick(None, "Now!"))
                )
            case "undo" if state.undo_to is not None:
                telling.write(Rewound(state.undo_to))
            case "redo" if state.redo_to is not None:
                telling.write(Rewound(state.redo_to))
            case "anywhere":
                telling.write(Rewound(telling.pick(*state.boundaries())))
            case "compact":
                telling.write(_compacted(telling))
            case _:
                pass


def _compacted(telling: Telling) -> Compacted:
    """A tail of the conversation, cut anywhere, behind a summary; it may have forgotten how many ids there were."""
    conversation = telling.state.conversation
    whole = len(conversation.messages)
    cut = telling.draw(st.just(whole) | st.integers(0, whole))
    summary = Message("user", (Text("So far: much."),))
    shorter = Conversation(
        (summary, *conversation.messages[cut:]), conversation.system, telling.pick(0, conversation.minted)
    )
    return Compacted(conversation=shorter, strategy="cut")


def _turn(telling: Telling) -> None:
    model = telling.pick("", *MODELS)
    if telling.pick(True, False, False):
        telling.write(TurnResumed(model))
    else:
        telling.write(UserSaid(Message("user", (Text(telling.draw(texts)),)), model))
    for _ in range(telling.draw(st.integers(0, 3))):
        _batch(telling)
        if telling.draw(st.booleans()):
            telling.write(NoteAdded(Message("user", (Text("a note"),))))
        if telling.pick(True, False, False):
            telling.write(_compacted(telling))
    if telling.draw(st.booleans()):
        said: tuple[Block, ...] = (Reasoning("hm"), Text(telling.draw(texts)))
        telling.write(ModelReplied(Message("model", said, FOREIGN), usage=Usage(3, 4), cost=0.5))
    telling.write(
        TurnEnded(telling.pick("complete", "cancelled", "error"), telling.pick(None, {"code": "x"}))
    )


def _batch(telling: Telling) -> None:
    wanted = [
        ToolCall("", telling.pick("read", "write"), telling.draw(st.just({}) | strange_values), native_id="n")
        for _ in range(telling.draw(st.integers(1, 3)))
    ]
    telling.write(ModelReplied(Message("model", (Text("let me see"), *wanted), FOREIGN), "tool_calls"))
    calls = telling.state.conversation.messages[-1].calls
    telling.write(CallsScheduled(calls))
    for call in calls:
        if telling.draw(st.booleans()):
            telling.write(CallBegun(call.id))
    for call in telling.draw(st.permutations(calls)):
        if telling.draw(st.booleans()):
            result = ToolResult(call.id, call.name, telling.draw(outputs), complete=True)
        else:
            result = ToolResult(call.id, call.name, reason="cancelled_by_user")
        telling.write(CallEnded(result))
    telling.write(ToolsAnswered(tuple(call.id for call in calls)))
