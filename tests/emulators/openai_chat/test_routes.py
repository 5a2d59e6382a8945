from __future__ import annotations

from array import array
from base64 import b64decode
from typing import Any

import pytest

from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.in_process import EmulatorResponse, ask_now
from segue.emulators.model.model_reply import Reply, Say
from segue.emulators.model.responder import ScriptedResponder

CHAT = "/openai/v1/chat/completions"
EMBED = "/openai/v1/embeddings"
HI: dict[str, Any] = {"model": "gpt-4.1", "messages": [{"role": "user", "content": "hi"}]}


def embed(value: object, **more: Any) -> EmulatorResponse:
    return ask_now(App(), "POST", EMBED, json={"model": "text-embedding-3-small", "input": value, **more})


def error(answer: EmulatorResponse) -> dict[str, Any]:
    found: dict[str, Any] = answer.json()["error"]
    assert set(found) == {"message", "type", "param", "code"}
    return found


@pytest.mark.rule("OAI-00")
def test_without_a_key_nobody_gets_in() -> None:
    answer = ask_now(App(), "POST", CHAT, json=HI, headers={})
    assert answer.status == 401
    assert error(answer)["message"].startswith("You didn't provide an API key.")


@pytest.mark.rule("OAI-00")
def test_a_wrong_key_is_shown_half() -> None:
    app = App(Emulator(keys=["sk-right"]))
    answer = ask_now(app, "POST", CHAT, json=HI, headers={"authorization": "Bearer test-openai-secret-key"})
    assert (answer.status, error(answer)["code"]) == (401, "invalid_api_key")
    assert error(answer)["message"] == (
        "Incorrect API key provided: test-ope**********-key. "
        "You can find your API key at https://platform.openai.com/account/api-keys."
    )


@pytest.mark.rule("OAI-00")
def test_what_is_not_json_is_refused() -> None:
    answer = ask_now(App(), "POST", CHAT, body=b"{")
    assert answer.status == 400
    assert error(answer)["message"].startswith("We could not parse the JSON body of your request.")


@pytest.mark.rule("OAI-03")
def test_every_answer_has_a_request_id() -> None:
    app = App()
    answers = [ask_now(app, "POST", CHAT, json=HI), ask_now(app, "POST", CHAT, json={})]
    assert [answer.status for answer in answers] == [200, 400]
    assert len({answer.headers["x-request-id"] for answer in answers}) == 2


@pytest.mark.rule("OAI-05")
def test_models_are_listed_and_shown() -> None:
    app = App()
    listed = ask_now(app, "GET", "/openai/v1/models").json()
    assert listed["object"] == "list"
    name = listed["data"][0]["id"]
    assert ask_now(app, "GET", f"/openai/v1/models/{name}").json() == listed["data"][0]
    missing = ask_now(app, "GET", "/openai/v1/models/ft:123")
    assert (missing.status, error(missing)) == (
        404,
        {
            "message": "The model 'ft:123' does not exist",
            "type": "invalid_request_error",
            "param": "model",
            "code": "model_not_found",
        },
    )


@pytest.mark.rule("OAI-01")
def test_a_prompt_that_continues_an_earlier_one_is_read_from_the_cache() -> None:
    app = App(Emulator(responder=ScriptedResponder([Reply(pieces=(Say("ok"),))] * 4)))
    long = {"role": "user", "content": "x" * 8000}
    first = {**HI, "messages": [long]}
    second = {
        **HI,
        "messages": [long, {"role": "assistant", "content": "ok"}, {"role": "user", "content": "?"}],
    }

    def cached(body: dict[str, Any]) -> int:
        usage = ask_now(app, "POST", CHAT, json=body).json()["usage"]
        found: int = usage["prompt_tokens_details"]["cached_tokens"]
        return found

    assert cached(first) == 0
    assert cached(second) > 1900
    assert cached({**second, "model": "gpt-4o"}) == 0, "another model has another cache"
    changed = {**second, "messages": [{**long, "content": "y" + long["content"][1:]}]}
    assert cached(changed) == 0


@pytest.mark.rule("OAI-07")
def test_vectors_come_as_floats_or_as_base64_and_mean_the_same() -> None:
    floats = embed(["the cat sat"]).json()
    packed = embed(["the cat sat"], encoding_format="base64").json()
    vector = array("f", b64decode(packed["data"][0]["embedding"]))
    assert len(vector) == 1536
    assert vector.tolist() == pytest.approx(floats["data"][0]["embedding"])
    assert floats["usage"] == {"prompt_tokens": 3, "total_tokens": 3}


@pytest.mark.rule("OAI-07")
def test_texts_that_share_words_lie_close_together() -> None:
    data = embed(["the cat sat", "the cat slept", "stocks fell sharply"]).json()["data"]
    cat, kitten, stocks = [item["embedding"] for item in data]
    near = sum(a * b for a, b in zip(cat, kitten, strict=True))
    far = sum(a * b for a, b in zip(cat, stocks, strict=True))
    assert near > far + 0.3


INVALID = (
    "'$.input' is invalid. Please check the API reference: https://platform.openai.com/docs/api-reference."
)


@pytest.mark.rule("OAI-07")
@pytest.mark.parametrize("value", ["", [], ["a", ""], [1, "a"], ["a"] * 2049, None, {}, [[]]])
def test_an_input_is_not_empty_and_has_2048_texts_at_most(value: object) -> None:
    answer = embed(value)
    assert (answer.status, error(answer)["message"]) == (400, INVALID)


@pytest.mark.rule("OAI-07")
@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"dimensions": -1}, "-1 is less than the minimum of 1 - 'dimensions'"),
        (
            {"encoding_format": "hex"},
            "Invalid value: 'hex'. Supported values are: 'float' and 'base64'.",
        ),
        ({"truncate": True}, "Unknown parameter: 'truncate'."),
    ],
)
def test_parameters_of_embeddings_are_checked(more: dict[str, Any], message: str) -> None:
    answer = embed("x", **more)
    assert (answer.status, error(answer)["message"]) == (400, message)


@pytest.mark.rule("OAI-07")
def test_one_text_and_all_texts_together_have_a_limit() -> None:
    one = embed("x" * 4 * 8193)
    assert error(one)["message"] == (
        "This model's maximum context length is 8192 tokens, however you requested 8193 tokens (8193 in your prompt; "
        "0 for the completion). Please reduce your prompt; or completion length."
    )
    many = embed(["x" * 4 * 8000] * 38)
    assert error(many)["message"] == "Requested 304000 tokens, max 300000 tokens per request"
