"""Models that are not streamed, and servers that know no streams."""

from __future__ import annotations

from typing import Any

import pytest

from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.in_process import ask_now

HI = {"messages": [{"role": "user", "content": "hi"}]}
CLAUDE = {**HI, "max_tokens": 100}
VERSION = {"x-api-key": "any", "anthropic-version": "2023-06-01"}
REQUESTS: dict[str, dict[str, Any]] = {
    "/openai/v1/chat/completions": {"model": "gpt-5", **HI},
    "/openai/v1/responses": {"model": "gpt-5", "input": "hi"},
}
STREAMS: dict[str, dict[str, Any]] = {
    **{path: {**body, "stream": True} for path, body in REQUESTS.items()},
    "/anthropic/v1/messages": {"model": "claude-sonnet-4-6", **CLAUDE, "stream": True},
    "/gemini/v1beta/models/gemini-3.5-flash:streamGenerateContent?alt=sse": {
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}]
    },
    "/mistral/v1/chat/completions": {"model": "mistral-large-latest", **HI, "stream": True},
    "/kimi/v1/chat/completions": {"model": "kimi-k2.6", **HI, "stream": True},
    "/deepseek/chat/completions": {"model": "deepseek-v4-flash", **HI, "stream": True},
    "/ollama/api/chat": {"model": "qwen3", **HI},
    "/ollama/v1/chat/completions": {"model": "qwen3", **HI, "stream": True},
}


@pytest.mark.rule("OAI-08")
@pytest.mark.parametrize("path", REQUESTS)
def test_a_model_that_an_account_may_not_stream_answers_whole(path: str) -> None:
    app = App(Emulator(unstreamed=["gpt-5*"]))
    refused = ask_now(app, "POST", path, json={**REQUESTS[path], "stream": True})
    assert refused.status == 400
    error = refused.json()["error"]
    assert error["message"].startswith("Your organization must be verified to stream this model. ")
    assert (error["type"], error["param"], error["code"]) == (
        "invalid_request_error",
        "stream",
        "unsupported_value",
    )
    assert [entry.rule for entry in app.emulator.log] == ["OAI-08"]
    assert ask_now(app, "POST", path, json=REQUESTS[path]).status == 200
    streamed = {**REQUESTS[path], "model": "gpt-4.1", "stream": True}
    assert ask_now(app, "POST", path, json=streamed).headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize("path", STREAMS)
def test_a_server_that_knows_no_streams_answers_whole(path: str) -> None:
    headers = {"authorization": "Bearer any", "x-goog-api-key": "any", **VERSION}
    app = App()
    streamed = ask_now(app, "POST", path, json=STREAMS[path], headers=headers)
    app.emulator.sends_whole = True
    whole = ask_now(app, "POST", path, json=STREAMS[path], headers=headers)
    assert (whole.status, streamed.status) == (200, 200), whole.body
    assert whole.headers["content-type"].startswith("application/json")
    assert isinstance(whole.json(), dict)
    assert not streamed.headers["content-type"].startswith("application/json")
