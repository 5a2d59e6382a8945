"""The Messages API over HTTP: answers, streams, counts, models, and refusals in their envelope."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from emulators.anthropic.requests import BINDING, OLD, TOOLS, ask, assistant, call, result, text, user
from segue.emulators.anthropic import limits
from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.faults import Fault
from segue.emulators.in_process import EmulatorResponse, ask_now
from segue.emulators.model.model_reply import Call, Piece, Reply, Say, Think
from segue.emulators.model.responder import ScriptedResponder

HEADERS = {"x-api-key": "sk-ant", "anthropic-version": "2023-06-01", "content-type": "application/json"}
PIECES = (
    Think("Need two lookups."),
    Say("Checking both."),
    Call("get_weather", {"city": "Paris"}),
    Call("get_weather"),
)


def app_saying(*pieces: Piece, **reply: Any) -> App:
    return App(Emulator(responder=ScriptedResponder([Reply(pieces=pieces, **reply)] * 4)))


def post(app: App, body: object, path: str = "/v1/messages", **headers: str) -> EmulatorResponse:
    return ask_now(app, "POST", f"/anthropic{path}", json=body, headers={**HEADERS, **headers})


def events(answer: EmulatorResponse) -> list[tuple[str, Any]]:
    frames = answer.body.decode().removesuffix("\n\n").split("\n\n")
    pairs = [frame.split("\n") for frame in frames]
    return [
        (name.removeprefix("event: "), msgspec.json.decode(data.removeprefix("data: ")))
        for name, data in pairs
    ]


def folded(answer: EmulatorResponse) -> list[dict[str, Any]]:
    """The content of a stream, put together as an SDK does."""
    blocks: list[dict[str, Any]] = []
    written: dict[int, str] = {}
    for name, data in events(answer):
        if name == "content_block_start":
            blocks.append(dict(data["content_block"]))
        if name != "content_block_delta":
            continue
        block, delta = blocks[data["index"]], data["delta"]
        match delta["type"]:
            case "text_delta":
                block["text"] += delta["text"]
            case "thinking_delta":
                block["thinking"] += delta["thinking"]
            case "signature_delta":
                block["signature"] = delta["signature"]
            case _:
                written[data["index"]] = written.get(data["index"], "") + delta["partial_json"]
    for index, json in written.items():
        blocks[index]["input"] = msgspec.json.decode(json or "{}")
    return blocks


@pytest.mark.rule("ANT-73", "ANT-74")
def test_a_whole_reply_has_content_a_reason_and_counted_usage() -> None:
    body = ask(user(), **TOOLS, thinking={"type": "enabled", "budget_tokens": 1024})
    answer = post(app_saying(*PIECES), body).json()
    assert [block["type"] for block in answer["content"]] == ["thinking", "text", "tool_use", "tool_use"]
    assert answer["stop_reason"] == "tool_use"
    assert answer["content"][3]["input"] == {}
    assert answer["usage"]["output_tokens"] == 5 + 4 + (3 + 4) + (3 + 1)
    assert answer["usage"]["input_tokens"] > 20


@pytest.mark.rule("ANT-70", "ANT-71", "ANT-72", "ANT-74")
def test_a_stream_has_named_events_in_order_and_folds_to_the_whole_reply() -> None:
    body = ask(user(), **TOOLS, thinking={"type": "enabled", "budget_tokens": 1024})
    whole = post(app_saying(*PIECES), body).json()
    answer = post(app_saying(*PIECES), {**body, "stream": True})
    names = [name for name, _ in events(answer)]
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert (names[0], names[-2:]) == ("message_start", ["message_delta", "message_stop"])
    assert all(data["type"] == name for name, data in events(answer))
    assert folded(answer) == whole["content"]
    assert events(answer)[-2][1]["usage"] == whole["usage"]
    assert events(answer)[-2][1]["delta"]["stop_reason"] == "tool_use"


@pytest.mark.rule("ANT-51", "ANT-71")
def test_a_streamed_reply_is_accepted_when_it_is_sent_back() -> None:
    app = app_saying(Think("Hm."), Say("Yes."))
    body = ask(user(), model=BINDING)
    content = folded(post(app, {**body, "stream": True}))
    assert (content[0]["thinking"], content[1]["text"]) == ("", "Yes.")
    longer = {**body, "messages": [user(), {"role": "assistant", "content": content}, user()]}
    assert post(app, longer).status == 200
    assert post(app, longer, **{"x-api-key": "sk-another-account"}).status == 400


@pytest.mark.rule("ANT-74")
@pytest.mark.parametrize(
    ("finish", "reason"), [("length", "max_tokens"), ("refusal", "refusal"), ("auto", "end_turn")]
)
def test_a_reply_says_why_it_ended(finish: str, reason: str) -> None:
    assert post(app_saying(Say("Well."), finish=finish), ask()).json()["stop_reason"] == reason


@pytest.mark.rule("ANT-01")
def test_a_refusal_has_the_envelope_and_the_id_of_its_request() -> None:
    answer = post(App(), ask(user(), assistant(call()), user(), **TOOLS))
    assert answer.status == 400
    body = answer.json()
    assert (body["type"], body["error"]["type"]) == ("error", "invalid_request_error")
    assert "`tool_use` ids were found" in body["error"]["message"]
    assert body["request_id"] == answer.headers["request-id"]


@pytest.mark.rule("ANT-01")
def test_without_a_known_key_nothing_is_answered() -> None:
    bare = {"anthropic-version": "2023-06-01"}
    answer = ask_now(App(), "POST", "/anthropic/v1/messages", json=ask(), headers=bare)
    assert (answer.status, answer.json()["error"]["type"]) == (401, "authentication_error")
    wrong = post(App(Emulator(keys=["sk-right"])), ask())
    assert (wrong.status, wrong.json()["error"]["message"]) == (401, "invalid x-api-key")


@pytest.mark.rule("ANT-02")
def test_both_versions_and_both_ways_to_send_a_key_are_accepted_but_no_other_version() -> None:
    bearer = {"authorization": "Bearer sk-ant", "anthropic-version": "2026-10-21"}
    assert ask_now(App(), "POST", "/anthropic/v1/messages", json=ask(), headers=bearer).status == 200
    assert post(App(), ask()).status == 200
    assert post(App(), ask(), **{"anthropic-version": "2020-01-01"}).status == 400
    missing = ask_now(App(), "POST", "/anthropic/v1/messages", json=ask(), headers={"x-api-key": "sk"})
    assert missing.json()["error"]["message"] == "anthropic-version: header is required"


@pytest.mark.rule("ANT-05")
def test_a_strange_beta_is_refused() -> None:
    answer = post(App(), ask(), **{"anthropic-beta": "files-api-2025-04-14,nonsense"})
    assert answer.status == 400
    assert answer.json()["error"]["message"].startswith(
        "Unexpected value(s) `nonsense` for the `anthropic-beta`"
    )


@pytest.mark.rule("ANT-05")
def test_an_unknown_model_is_not_found() -> None:
    answer = post(App(), ask(model="gpt-4o"))
    assert (answer.status, answer.json()["error"]) == (
        404,
        {"type": "not_found_error", "message": "model: gpt-4o"},
    )


@pytest.mark.rule("ANT-04")
def test_what_is_not_json_is_refused() -> None:
    answer = ask_now(App(), "POST", "/anthropic/v1/messages", body=b"{", headers=HEADERS)
    assert answer.status == 400
    assert "not valid JSON" in answer.json()["error"]["message"]


@pytest.mark.rule("ANT-81")
def test_a_body_of_more_than_32_megabytes_is_too_large() -> None:
    assert list(limits.body_too_large(limits.MOST_BYTES)) == []
    (refusal,) = limits.body_too_large(limits.MOST_BYTES + 1)
    assert (refusal.status, refusal.type) == (413, "request_too_large")


@pytest.mark.rule("ANT-96")
def test_tokens_are_counted_without_a_limit_and_as_the_reply_counts_them() -> None:
    body = ask(user(text("How many?")), **TOOLS)
    counted = {key: value for key, value in body.items() if key != "max_tokens"}
    answer = post(App(), counted, "/v1/messages/count_tokens")
    assert answer.json() == {"input_tokens": post(App(), body).json()["usage"]["input_tokens"]}
    assert post(App(), {**counted, "messages": [user(result())]}, "/v1/messages/count_tokens").status == 400


@pytest.mark.rule("ANT-95")
def test_models_are_listed_page_by_page_and_shown_one_by_one() -> None:
    def get(path: str) -> EmulatorResponse:
        return ask_now(App(), "GET", f"/anthropic{path}", headers=HEADERS)

    first = get("/v1/models?limit=2").json()
    assert (len(first["data"]), first["has_more"]) == (2, True)
    second = get(f"/v1/models?limit=1000&after_id={first['last_id']}").json()
    assert second["has_more"] is False
    assert BINDING in [model["id"] for model in second["data"]]
    assert get(f"/v1/models/{OLD}").json()["max_tokens"] == 64_000
    assert get("/v1/models/unknown").status == 404
    assert get("/v1/models?limit=0").status == 400


@pytest.mark.rule("ANT-73", "ANT-85", "ANT-86")
def test_a_marked_prefix_is_written_to_the_cache_and_read_from_it() -> None:
    app = app_saying(Say("Yes."))
    mark = {"cache_control": {"type": "ephemeral"}}
    body = ask(system=[text("Know this. " * 800, **mark)])
    usages = [post(app, body).json()["usage"] for _ in range(2)]
    written, read = usages[0]["cache_creation_input_tokens"], usages[1]["cache_read_input_tokens"]
    assert written == read > 1024
    assert usages[0]["cache_read_input_tokens"] == usages[1]["cache_creation_input_tokens"] == 0
    unmarked = post(app, ask(system=[text("Know this. " * 800)])).json()["usage"]
    assert unmarked["cache_read_input_tokens"] == 0
    assert unmarked["input_tokens"] == usages[0]["input_tokens"] + written


@pytest.mark.rule("ANT-86")
def test_a_short_prefix_is_silently_not_cached() -> None:
    app = app_saying(Say("Yes."))
    body = ask(system=[text("Short.", cache_control={"type": "ephemeral"})])
    usage = [post(app, body).json()["usage"] for _ in range(2)][1]
    assert usage["cache_read_input_tokens"] == usage["cache_creation_input_tokens"] == 0


@pytest.mark.rule("ANT-87")
def test_a_limit_of_nought_only_warms_the_cache() -> None:
    answer = post(app_saying(Say("Yes.")), {**ask(), "max_tokens": 0}).json()
    assert (answer["content"], answer["stop_reason"]) == ([], "max_tokens")


@pytest.mark.rule("ANT-90")
def test_a_rate_limit_says_how_long_to_wait_and_an_overload_does_not_blame_the_client() -> None:
    app = App()
    app.emulator.faults.extend([Fault(status=429, retry_after=3), Fault(status=529, retry_after=None)])
    limited, overloaded = post(app, ask()), post(app, ask())
    assert (limited.status, limited.headers["retry-after"]) == (429, "3")
    assert limited.json()["error"]["type"] == "rate_limit_error"
    assert limited.headers["anthropic-ratelimit-requests-limit"]
    assert (overloaded.status, overloaded.json()["error"]) == (
        529,
        {"type": "overloaded_error", "message": "Overloaded"},
    )


@pytest.mark.rule("ANT-75")
def test_an_error_in_a_stream_is_its_last_event() -> None:
    app = app_saying(Say("A long story. " * 10))
    app.emulator.faults.append(Fault(kind="error_mid_stream", status=529, at_byte=600))
    answer = post(app, ask(stream=True))
    assert answer.status == 200
    assert events(answer)[-1][0] == "error"
    assert events(answer)[-1][1]["error"]["type"] == "overloaded_error"
    assert "message_stop" not in [name for name, _ in events(answer)]


def test_without_a_script_the_agent_uses_the_offered_tools_and_finishes() -> None:
    app, body = App(), ask(user(text("Weather in Paris?")), **TOOLS)
    for _ in range(8):
        answer = post(app, body).json()
        if answer["stop_reason"] == "end_turn":
            break
        calls = [block for block in answer["content"] if block["type"] == "tool_use"]
        results = user(*[result(block["id"]) for block in calls])
        body["messages"] += [{"role": "assistant", "content": answer["content"]}, results]
    assert answer["stop_reason"] == "end_turn"
