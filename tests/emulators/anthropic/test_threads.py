"""Message threads: created, continued once, forgotten; and what is said to a client that continues what is not held."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from emulators.anthropic.test_routes import HEADERS
from segue.emulators.anthropic.threads import HELD, keep, then_keep
from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.in_process import EmulatorResponse, ask_now
from segue.emulators.model.model_reply import Prompt, Reply, Say, Think
from segue.emulators.model.responder import ScriptedResponder
from segue.transports.asgi import AsgiTransport
from segue.transports.transport import WireRequest

BETA = {"anthropic-beta": "message-threads-2026-08-12"}
MODEL = "claude-opus-4-8"
"""One that takes system messages in mid-conversation."""
TOOL = {"name": "weather", "input_schema": {"type": "object"}}


READ = {"model": "m", "messages": [{"role": "user", "content": "One."}]}


def answer(name: str) -> dict[str, Any]:
    return {"id": name, "content": [{"type": "text", "text": "So."}], "stop_reason": "end_turn"}


class Echo:
    """A model that says what it was asked last, and how many results it got; more slowly, the longer it is."""

    def reply(self, prompt: Prompt) -> Reply:
        said = f"{prompt.text} {len(prompt.results)} {len(prompt.tools)}"
        return Reply(pieces=(Say(said),), delay=0.01 if len(said) > 500 else 0.0)

    def reset(self) -> None:
        """Nothing is remembered."""


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def send(app: App, thread: object, *messages: object, **fields: Any) -> EmulatorResponse:
    body = {"model": "claude-sonnet-4-6", "max_tokens": 100, "messages": list(messages), **fields}
    if thread is not None:
        body["thread"] = thread
    return ask_now(app, "POST", "/anthropic/v1/messages", json=body, headers={**HEADERS, **BETA})


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def after(answered: EmulatorResponse) -> dict[str, str]:
    return {"type": "continue", "previous_message_id": answered.json()["id"]}


def error(answer: EmulatorResponse) -> tuple[int, str, str]:
    found = answer.json()["error"]
    return answer.status, found["type"], found["details"]["error_code"]


@pytest.mark.rule("THR-02", "THR-03")
def test_a_thread_is_continued_with_what_it_holds() -> None:
    app = App(Emulator(responder=Echo()))
    call = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}
    first = send(app, {"type": "create"}, user("One."), tools=[TOOL])
    assert first.status == 200, first.body
    # The call is in the thread, so its result is accepted alone.
    open_call = send(
        app,
        {"type": "create"},
        user("One."),
        {"role": "assistant", "content": [call]},
        user("Two."),
        tools=[TOOL],
    )
    assert open_call.status == 400
    second = send(app, after(first), user("Two."))
    assert second.json()["content"][0]["text"] == "Two. 0 1"


@pytest.mark.rule("THR-16", "THR-05")
def test_a_thread_that_is_unknown_or_too_old_is_not_found() -> None:
    clock = Clock()
    app = App(Emulator(responder=Echo(), clock=clock))
    unknown = send(app, {"type": "continue", "previous_message_id": "msg_1"}, user("Two."))
    assert error(unknown) == (404, "not_found_error", "thread_not_found")
    first = send(app, {"type": "create"}, user("One."))
    clock.now += 301
    assert error(send(app, after(first), user("Two.")))[2] == "thread_not_found"
    plain = send(app, None, user("One."))
    assert error(send(app, after(plain), user("Two.")))[2] == "thread_not_found"


@pytest.mark.rule("THR-06")
def test_a_message_is_continued_once() -> None:
    app = App(Emulator(responder=Echo()))
    first = send(app, {"type": "create"}, user("One."))
    assert send(app, after(first), user("Two.")).status == 200
    assert error(send(app, after(first), user("Three."))) == (
        400,
        "invalid_request_error",
        "thread_already_continued",
    )


@pytest.mark.rule("THR-04")
def test_a_thread_keeps_its_model() -> None:
    app = App(Emulator(responder=Echo()))
    first = send(app, {"type": "create"}, user("One."), system="Be brief.")
    changed = send(app, after(first), user("Two."), system="Be long.")
    assert error(changed) == (400, "invalid_request_error", "thread_fingerprint_mismatch")
    assert send(app, after(first), user("Two."), system="Be brief.").status == 200


@pytest.mark.rule("THR-06")
def test_a_message_is_not_continued_twice_at_the_same_time() -> None:
    app = App(Emulator(responder=Echo()))
    first = send(app, {"type": "create"}, user("One."))

    async def story() -> None:
        body = {
            "model": "claude-sonnet-4-6",
            "max_tokens": 100,
            "messages": [user("Two. " * 200)],
            "stream": True,
        }
        request = WireRequest(
            url="http://loopback/anthropic/v1/messages",
            headers={**HEADERS, **BETA, "content-type": "application/json"},
            body=msgspec.json.encode({**body, "thread": after(first)}),
        )
        async with AsgiTransport(app)(request) as streamed:
            assert streamed.status == 200
            portions = aiter(streamed.portions())
            await anext(portions)
            second = await asyncio.to_thread(send, app, after(first), user("Two."))
            assert error(second) == (400, "invalid_request_error", "thread_continue_in_flight")
            async for _ in portions:
                pass
        third = await asyncio.to_thread(send, app, after(first), user("Two."))
        assert error(third)[2] == "thread_already_continued"

    asyncio.run(story())


@pytest.mark.rule("THR-06")
def test_a_stream_that_was_broken_off_leaves_its_thread_as_it_was() -> None:
    """A client that aborts continues the same message again."""
    memory: dict[str, Any] = {}
    keep({"thread": {"type": "create"}}, READ, answer("msg_1"), memory, 1000)
    continued = {"thread": {"type": "continue", "previous_message_id": "msg_1"}}
    stream = then_keep(iter([b"one", b"two"]), continued, READ, answer("msg_2"), memory, 1000)
    assert next(stream) == b"one"
    assert memory[HELD]["msg_1"]["in_flight"]
    stream.close()  # type: ignore[attr-defined]  # a generator
    held = memory[HELD]["msg_1"]
    assert (held["in_flight"], held["continued"]) == (False, False)
    assert list(memory[HELD]) == ["msg_1"]


@pytest.mark.rule("THR-08")
def test_a_refused_turn_is_dropped_and_the_turn_before_it_can_be_continued() -> None:
    class Refuses(Echo):
        def reply(self, prompt: Prompt) -> Reply:
            return (
                Reply(pieces=(Say("No."),), finish="refusal")
                if "bad" in prompt.text
                else super().reply(prompt)
            )

    app = App(Emulator(responder=Refuses()))
    first = send(app, {"type": "create"}, user("One."))
    refused = send(app, after(first), user("Something bad."))
    assert refused.json()["stop_reason"] == "refusal"
    assert error(send(app, after(refused), user("Three.")))[2] == "thread_not_found"
    assert send(app, after(first), user("Two.")).status == 200


@pytest.mark.rule("THR-16")
@pytest.mark.parametrize("kind", ["create", "continue"])
def test_a_thread_has_no_fallbacks(kind: str) -> None:
    app = App(Emulator(responder=Echo()))
    first = send(app, {"type": "create"}, user("One."))
    thread = {"type": "create"} if kind == "create" else after(first)
    betas = {**BETA, "anthropic-beta": "message-threads-2026-08-12,server-side-fallback-2026-07-01"}
    body = {
        "model": "claude-sonnet-4-6",
        "max_tokens": 9,
        "messages": [user("Two.")],
        "thread": thread,
        "fallbacks": "default",
    }
    refused = ask_now(app, "POST", "/anthropic/v1/messages", json=body, headers={**HEADERS, **betas})
    assert error(refused) == (400, "invalid_request_error", "thread_unsupported_request")
    assert refused.json()["error"]["details"]["unsupported"] == ["fallbacks"]


def test_threads_are_not_counted() -> None:
    app = App(Emulator(responder=Echo()))
    body = {"model": "claude-sonnet-4-6", "messages": [user("One.")], "thread": {"type": "create"}}
    path = "/anthropic/v1/messages/count_tokens"
    refused = ask_now(app, "POST", path, json=body, headers={**HEADERS, **BETA})
    assert refused.json()["error"]["message"] == "thread: Extra inputs are not permitted"


def test_a_thread_is_created_or_continued_and_nothing_else() -> None:
    app = App(Emulator(responder=Echo()))
    for thread in ({"type": "fork"}, {"type": "continue"}, {"type": "create", "name": "x"}, "create"):
        assert send(app, thread, user("One.")).status == 400, thread


@pytest.mark.parametrize(
    ("betas", "status"), [("thinking-display-updates-2026-08-18", 200), ("context-1m-2025-08-07", 400)]
)
def test_thoughts_are_shown_as_updates_to_those_who_have_that_beta(betas: str, status: int) -> None:
    class Thinks(Echo):
        def reply(self, prompt: Prompt) -> Reply:
            return Reply(pieces=(Think("Looking."), Say("Done.")))

    body = {
        "model": "claude-sonnet-4-6",
        "max_tokens": 2000,
        "messages": [user("One.")],
        "thinking": {"type": "adaptive", "display": "updates"},
    }
    app = App(Emulator(responder=Thinks()))
    headers = {**HEADERS, "anthropic-beta": betas}
    answered = ask_now(app, "POST", "/anthropic/v1/messages", json=body, headers=headers)
    assert answered.status == status, answered.body
    if status == 200:
        assert answered.json()["content"][0]["thinking"] == "Looking."
    else:
        expected = "thinking.adaptive.display: Input should be 'summarized' or 'omitted'"
        assert answered.json()["error"]["message"] == expected


def test_a_thread_needs_its_beta() -> None:
    app = App(Emulator(responder=Echo()))
    body = {
        "model": "claude-sonnet-4-6",
        "max_tokens": 9,
        "messages": [user("One.")],
        "thread": {"type": "create"},
    }
    answer = ask_now(app, "POST", "/anthropic/v1/messages", json=body, headers=HEADERS)
    assert answer.json()["error"]["message"] == "thread: Extra inputs are not permitted"


def test_a_streamed_reply_is_continued_too() -> None:
    app = App(Emulator(responder=Echo()))
    streamed = send(app, {"type": "create"}, user("One."), stream=True)
    name = streamed.body.decode().partition('"id":"')[2].partition('"')[0]
    continued = {"type": "continue", "previous_message_id": name}
    assert send(app, continued, user("Two.")).status == 200


@pytest.mark.rule("THR-07")
def test_a_paused_reply_is_continued_without_a_message_and_no_other_is() -> None:
    app = App(
        Emulator(
            responder=ScriptedResponder(
                [Reply(pieces=(Say("Searching"),), finish="pause"), Reply(pieces=(Say("found."),))]
            )
        )
    )
    paused = send(app, {"type": "create"}, user("Find it."))
    assert paused.json()["stop_reason"] == "pause_turn"
    resumed = send(app, after(paused))
    assert (resumed.status, resumed.json()["content"][0]["text"]) == (200, "found.")
    refused = send(app, after(resumed))
    assert (refused.status, refused.json()["error"]["message"]) == (
        400,
        "messages: at least one message is required",
    )


@pytest.mark.rule("THR-09")
def test_system_messages_of_a_thread_add_tools_and_remove_them_from_there_on() -> None:
    app = App(Emulator(responder=Echo()))
    first = send(app, {"type": "create"}, user("One."), tools=[TOOL], model=MODEL)
    assert first.json()["content"][0]["text"] == "One. 0 1"
    clock = {"name": "clock", "input_schema": {"type": "object"}}
    added = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": clock}}
    second = send(app, after(first), user("Two."), {"role": "system", "content": [added]}, model=MODEL)
    assert second.json()["content"][0]["text"] == "Two. 0 2"
    third = send(app, after(second), user("Three."), tools=[TOOL], model=MODEL)
    assert third.json()["content"][0]["text"] == "Three. 0 2"
    removals = [
        {"type": "tool_removal", "tool": {"type": "tool_reference", "name": name}}
        for name in ("clock", "weather")
    ]
    fourth = send(app, after(third), user("Four."), {"role": "system", "content": removals}, model=MODEL)
    assert fourth.json()["content"][0]["text"] == "Four. 0 0"
