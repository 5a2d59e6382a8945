"""The chat without an event loop: the same turns, waited for."""

from __future__ import annotations

import inspect
import os
import signal
import threading
import time
from typing import Any

import pytest

from segue.chat.blocking import BlockingChat
from segue.chat.chat import Chat
from segue.conversation.events import Finished, TextDelta
from segue.errors import UsageError
from segue.events import Finish, TextChunk, ToolCallStart
from segue.providers.scripted import Pause, ScriptedProvider, ScriptLine, calls, says


def chat_with(*replies: list[ScriptLine], **settings: Any) -> Chat:
    return Chat("scripted/m", providers={"scripted": ScriptedProvider(replies)}, **settings)


def look() -> str:
    return "seen"


def nap() -> str:
    time.sleep(30)
    return "rested"


@pytest.mark.requirement("REQ-915-029")
def test_the_whole_chat_works_without_a_loop() -> None:
    chat = chat_with(calls(("look", {})), says("fine"), says("two"), says("three"), tools=[look])
    with chat.blocking() as held:
        assert str(held.send("go")) == "fine"
        assert [event.type for event in held.stream("again")] == ["text", "turn_complete", "finish"]
        held.undo()
        assert len(held.chat.conversation.messages) == 4
        held.redo()
        other = held.fork()
        assert other.send("more").text == "three"
        other.close()
        assert held.switch("scripted/n") is not None
        compaction = held.compact("truncate")
        assert compaction is not None
        assert compaction.strategy == "truncate"
        assert b"conversation" in held.export()


def test_events_come_while_they_happen() -> None:
    slow: list[ScriptLine] = [TextDelta(0, "soon"), Pause(0.4), TextDelta(0, "late"), Finished("stop")]
    with chat_with(slow).blocking() as held:
        started = time.perf_counter()
        events = held.stream("go")
        assert next(events) == TextChunk("soon")
        assert time.perf_counter() - started < 0.3
        assert next(events) == TextChunk("late")


def test_who_stops_listening_cancels_the_turn() -> None:
    with chat_with(calls(("nap", {})), says("fine"), tools=[nap]).blocking() as held:
        for event in held.stream("go"):
            if type(event) is ToolCallStart:
                break
        assert held.chat.answer is not None
        assert held.chat.answer.finish == "cancelled"
        assert held.send("again").text == "fine"


def test_another_thread_may_cancel() -> None:
    with chat_with(calls(("nap", {})), tools=[nap]).blocking() as held:
        threading.Timer(0.1, held.cancel).start()
        started = time.perf_counter()
        assert held.send("go").finish == "cancelled"
        assert time.perf_counter() - started < 2


@pytest.mark.parametrize("streaming", [True, False])
def test_ctrl_c_ends_the_turn_properly_and_is_raised_then(streaming: bool) -> None:
    with chat_with(calls(("nap", {})), says("fine"), tools=[nap]).blocking() as held:
        threading.Timer(0.15, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            if streaming:
                list(held.stream("go"))
            else:
                held.send("go")
        assert not held.chat.busy
        assert held.chat.ledger["c0"].status == "cancelled"
        assert held.send("again").text == "fine"


def test_errors_of_use_are_raised_where_they_were_made() -> None:
    with chat_with().blocking() as held:
        with pytest.raises(UsageError):
            held.send("")
        with pytest.raises(UsageError):
            list(held.stream(""))
        with pytest.raises(UsageError):
            held.switch("nowhere/m")
    held.close()


def test_finish_is_the_last_event() -> None:
    with chat_with(says("a")).blocking() as held:
        assert type(list(held.stream("go"))[-1]) is Finish


def test_a_second_thread_is_told_that_a_turn_runs() -> None:
    with chat_with([Pause(30)], says("later")).blocking() as chat:
        first = threading.Thread(target=chat.send, args=("hello",))
        first.start()
        while not chat.chat.busy:
            time.sleep(0.005)
        with pytest.raises(UsageError, match="A turn is running"):
            chat.send("me too")
        with pytest.raises(UsageError, match="A turn is running"):
            chat.undo()
        chat.cancel()
        first.join(5)
        assert chat.send("and now?").text == "later"


def test_whatever_a_chat_does_can_be_done_without_a_loop() -> None:
    done = {name for name, what in vars(Chat).items() if inspect.iscoroutinefunction(what) and name[0] != "_"}
    assert done <= set(vars(BlockingChat))
