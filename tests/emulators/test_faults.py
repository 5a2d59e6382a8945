from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from segue.emulators import provider_paths
from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.faults import Fault
from segue.emulators.in_process import EmulatorResponse, ask_now
from segue.emulators.model.model_reply import Reply, Say
from segue.emulators.model.responder import ScriptedResponder

CHAT = "/openai/v1/chat/completions"
HI: dict[str, Any] = {"model": "gpt-4.1", "messages": [{"role": "user", "content": "hi"}]}
STREAM = {**HI, "stream": True}


def spoiled(fault: Fault, body: dict[str, Any] = HI, url: str = CHAT) -> EmulatorResponse:
    app = App(Emulator(responder=ScriptedResponder([Reply(pieces=(Say("Hello there, how are you?"),))] * 2)))
    app.emulator.faults.append(fault)
    answer = ask_now(app, "POST", url, json=body)
    assert app.emulator.log[-1].verdict == "fault"
    whole = ask_now(app, "POST", url, json=body)
    assert (whole.status, whole.complete) == (200, True), "a fault spoils one answer only"
    return answer


@pytest.mark.rule("OAI-03")
def test_a_rate_limit_says_when_to_come_back() -> None:
    answer = spoiled(Fault(status=429, retry_after=2.5))
    assert answer.status == 429
    assert (answer.headers["retry-after"], answer.headers["retry-after-ms"]) == ("2", "2500")
    error = answer.json()["error"]
    assert (error["type"], error["code"]) == ("tokens", "rate_limit_exceeded")
    assert error["message"] == (
        "Rate limit reached for gpt-4.1 in organization org-emulated on tokens per min (TPM): Limit 30000, Used 28039, "
        "Requested 3906. Please try again in 2.5s. Visit https://platform.openai.com/account/rate-limits to learn more."
    )


@pytest.mark.rule("OAI-03")
@pytest.mark.parametrize("status", [500, 503])
def test_a_server_error_is_one(status: int) -> None:
    answer = spoiled(Fault(status=status, retry_after=None))
    assert (answer.status, answer.json()["error"]["type"]) == (status, "server_error")
    assert "retry-after" not in answer.headers


@pytest.mark.rule("CHAT-64")
def test_a_chat_stream_may_end_in_an_error() -> None:
    answer = spoiled(Fault(kind="error_mid_stream", status=503, at_byte=300), STREAM)
    *before, last = answer.body.decode().strip().split("\n\n")
    assert answer.status == 200
    assert len(before) >= 1
    assert "[DONE]" not in last
    assert msgspec.json.decode(last.removeprefix("data: "))["error"]["type"] == "server_error"


@pytest.mark.rule("RESP-63")
def test_a_response_stream_may_end_in_an_error_and_a_failure() -> None:
    body = {"model": "gpt-4.1", "input": "hi", "stream": True}
    answer = spoiled(Fault(kind="error_mid_stream", status=500), body, "/openai/v1/responses")
    *_, error, failed = answer.body.decode().strip().split("\n\n")
    assert error.startswith("event: error\n")
    assert msgspec.json.decode(error.split("data: ")[1])["error"]["type"] == "server_error"
    response = msgspec.json.decode(failed.split("data: ")[1])["response"]
    assert (response["status"], response["error"]["code"]) == ("failed", "server_error")


@pytest.mark.parametrize("at_byte", [0, 1, 100, 700])
@pytest.mark.parametrize("body", [HI, STREAM])
def test_a_connection_is_cut_at_the_very_byte(body: dict[str, Any], at_byte: int) -> None:
    answer = spoiled(Fault(kind="cut", at_byte=at_byte), body)
    assert not answer.complete
    assert len(answer.body) == min(at_byte, len(answer.body))
    assert len(answer.body) == at_byte or body is HI


def test_a_dripping_answer_is_whole_in_the_end() -> None:
    answer = spoiled(Fault(kind="drip", size=40, seconds=0.001))
    assert answer.json()["choices"]
    assert max(len(portion) for portion in answer.portions) == 40


@pytest.mark.parametrize("body", [HI, STREAM])
def test_a_broken_frame_is_not_json(body: dict[str, Any]) -> None:
    answer = spoiled(Fault(kind="malformed"), body)
    frames = [f.removeprefix("data: ") for f in answer.body.decode().split("\n\n") if f and "[DONE]" not in f]
    bad = 0
    for frame in frames:
        try:
            msgspec.json.decode(frame)
        except msgspec.DecodeError:
            bad += 1
    assert bad == 1


def test_a_page_of_html_comes_instead() -> None:
    answer = spoiled(Fault(kind="content_type"))
    assert answer.headers["content-type"].startswith("text/html")


def test_nothing_comes_at_all() -> None:
    answer = spoiled(Fault(kind="empty"))
    assert (answer.status, answer.body, answer.complete) == (200, b"", True)


def test_silence_has_an_end() -> None:
    started = time.monotonic()
    answer = spoiled(Fault(kind="silence", seconds=0.2))
    assert time.monotonic() - started >= 0.2
    assert (answer.body, answer.complete) == (b"", False)


def test_a_fault_waits_for_its_provider() -> None:
    app = App()
    app.emulator.faults.extend([Fault(status=500, provider="anthropic"), Fault(status=503)])
    assert ask_now(app, "POST", CHAT, json=HI).status == 503
    assert [fault.provider for fault in app.emulator.faults] == ["anthropic"]


@pytest.mark.parametrize("provider", list(provider_paths.mounted()))
@pytest.mark.parametrize("status", [429, 500, 503, 529])
def test_every_provider_has_its_words_for_trouble(provider: str, status: int) -> None:
    app = App()
    app.emulator.faults.append(Fault(status=status, retry_after=3))
    method, pattern, _ = provider_paths.mounted()[provider][0].routes[0]
    answer = ask_now(app, method, f"/{provider}" + pattern.replace("{model}", "m"), json={})
    assert answer.status == status
    assert isinstance(answer.json(), dict | list)


@pytest.mark.skipif("gemini" not in provider_paths.mounted(), reason="there is no Gemini emulator")
def test_gemini_says_in_the_body_when_to_come_back_and_for_which_model() -> None:
    app = App()
    app.emulator.faults.append(Fault(status=429, retry_after=7))
    url = "/gemini/v1beta/models/gemini-2.5-flash:generateContent"
    answer = ask_now(app, "POST", url, json={"contents": []}, headers={"x-goog-api-key": "k"})
    details = {detail["@type"].rpartition(".")[2]: detail for detail in answer.json()["error"]["details"]}
    assert details["RetryInfo"]["retryDelay"] == "7s"
    assert details["QuotaFailure"]["violations"][0]["quotaDimensions"]["model"] == "gemini-2.5-flash"
    assert "retry-after" not in answer.headers
