"""Message threads: created, continued once, forgotten; and what is said to a client that continues what is not held."""

from __future__ import annotations

from typing import Any

import pytest

from emulators.anthropic.test_routes import HEADERS
from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.in_process import EmulatorResponse, ask_now
from segue.emulators.model_reply import Prompt, Reply, Say

BETA = {"anthropic-beta": "message-threads-2026-08-12"}
TOOL = {"name": "weather", "input_schema": {"type": "object"}}


class Echo:
    """A model that says what it was asked last, and how many results it got."""

    def reply(self, prompt: Prompt) -> Reply:
        return Reply(pieces=(Say(f"{prompt.text} {len(prompt.results)} {len(prompt.tools)}"),))

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


def after(answer: EmulatorResponse) -> dict[str, str]:
    return {"type": "continue", "previous_message_id": answer.json()["id"]}


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
