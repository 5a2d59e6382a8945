"""Gemini over HTTP: answers, both forms of streams, counts, embeddings, models, and refusals in their envelope."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from emulators.gemini.requests import NEWEST, OLD, THREE, ask, model, response, text, tools, user
from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.faults import Fault
from segue.emulators.in_process import EmulatorResponse, ask_now
from segue.emulators.model.model_reply import Call, Piece, Reply, Say, Think
from segue.emulators.model.responder import ScriptedResponder

HEADERS = {"x-goog-api-key": "AIza", "content-type": "application/json"}
PIECES = (
    Think("I need two lookups."),
    Say("Checking both."),
    Call("get_weather", {"city": "Paris"}),
    Call("get_weather", {"city": "Rome"}),
)
EMBEDDER = "gemini-embedding-001"
SHOWN = {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}}


def app_saying(*pieces: Piece, **reply: Any) -> App:
    return App(Emulator(responder=ScriptedResponder([Reply(pieces=pieces, **reply)] * 4)))


def post(
    app: App, body: object, method: str = "generateContent", name: str = NEWEST, **headers: str
) -> EmulatorResponse:
    path = f"/gemini/v1beta/models/{name}:{method}"
    return ask_now(app, "POST", path, json=body, headers={**HEADERS, **headers})


def events(answer: EmulatorResponse) -> list[Any]:
    frames = answer.body.decode().removesuffix("\r\n\r\n").split("\r\n\r\n")
    return [msgspec.json.decode(frame.removeprefix("data: ")) for frame in frames]


def parts_of(chunks: list[Any]) -> list[dict[str, Any]]:
    return [part for chunk in chunks for part in chunk["candidates"][0]["content"]["parts"]]


@pytest.mark.rule("GEM-53", "GEM-56")
def test_a_whole_reply_signs_its_first_call_and_counts_its_thoughts_apart() -> None:
    answer = post(app_saying(*PIECES), ask(**tools(), **SHOWN)).json()
    candidate = answer["candidates"][0]
    thought, said, first, second = candidate["content"]["parts"]
    assert (thought["thought"], said) == (True, {"text": "Checking both."})
    assert first["thoughtSignature"]
    assert "thoughtSignature" not in second
    assert first["functionCall"]["id"] != second["functionCall"]["id"]
    assert (candidate["finishReason"], candidate["finishMessage"]) == (
        "STOP",
        "Model generated function call(s).",
    )
    usage = answer["usageMetadata"]
    assert usage["thoughtsTokenCount"] == 5
    counted = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount")
    assert usage["totalTokenCount"] == sum(usage[key] for key in counted)


@pytest.mark.rule("GEM-25")
def test_thoughts_are_shown_only_on_request() -> None:
    parts = post(app_saying(*PIECES), ask(**tools())).json()["candidates"][0]["content"]["parts"]
    assert not any(part.get("thought") for part in parts)


@pytest.mark.rule("GEM-16")
def test_older_models_give_no_ids() -> None:
    parts = post(app_saying(*PIECES), ask(**tools()), name=OLD).json()["candidates"][0]["content"]["parts"]
    assert "id" not in parts[1]["functionCall"]


@pytest.mark.rule("GEM-50", "GEM-51", "GEM-52")
def test_a_stream_of_events_has_increments_whole_calls_and_no_end_mark() -> None:
    answer = post(app_saying(*PIECES), ask(**tools(), **SHOWN), "streamGenerateContent?alt=sse")
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.body.endswith(b"}\r\n\r\n")
    assert b"[DONE]" not in answer.body
    chunks = events(answer)
    parts = parts_of(chunks)
    assert "".join(part["text"] for part in parts if part.get("thought")) == "I need two lookups."
    calls = [part for part in parts if "functionCall" in part]
    assert [part["functionCall"]["args"] for part in calls] == [{"city": "Paris"}, {"city": "Rome"}]
    assert [("finishReason" in chunk["candidates"][0]) for chunk in chunks] == [False] * (len(chunks) - 1) + [
        True
    ]
    assert parts[-1] == {"text": ""}


@pytest.mark.rule("GEM-20")
def test_the_signature_of_a_text_comes_at_the_end_of_the_stream_and_is_accepted_back() -> None:
    app = app_saying(Say("A mild day."))
    chunks = events(post(app, ask(), "streamGenerateContent?alt=sse"))
    parts = parts_of(chunks)
    assert parts[-1]["text"] == ""
    longer = ask(user(), model(*parts), user())
    assert post(app, longer).status == 200
    merged = {"text": "A mild day.", "thoughtSignature": parts[-1]["thoughtSignature"]}
    assert post(app, ask(user(), model(merged), user())).status == 200
    other = post(app, longer, **{"x-goog-api-key": "another"})
    assert (other.status, other.json()["error"]["message"]) == (400, "Corrupted thought signature.")


@pytest.mark.rule("GEM-50")
def test_without_alt_sse_a_stream_and_its_refusal_are_arrays() -> None:
    answer = post(app_saying(*PIECES), ask(**tools()), "streamGenerateContent")
    assert answer.headers["content-type"].startswith("application/json")
    assert len(answer.portions) > 2
    assert parts_of(answer.json())[-1] == {"text": ""}
    refused = post(App(), {}, "streamGenerateContent")
    assert (refused.status, refused.json()[0]["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert "error" in post(App(), {}, "streamGenerateContent?alt=sse").json()


@pytest.mark.rule("GEM-54")
@pytest.mark.parametrize(("finish", "reason"), [("length", "MAX_TOKENS"), ("refusal", "SAFETY")])
def test_a_reply_says_why_it_ended(finish: str, reason: str) -> None:
    answer = post(app_saying(Say("Well."), finish=finish), ask()).json()
    assert answer["candidates"][0]["finishReason"] == reason


@pytest.mark.rule("GEM-55")
def test_a_blocked_prompt_has_no_candidates() -> None:
    for answer in (
        post(app_saying(Say("x"), finish="content_filter"), ask()).json(),
        events(post(app_saying(Say("x"), finish="content_filter"), ask(), "streamGenerateContent?alt=sse"))[
            0
        ],
    ):
        assert answer["promptFeedback"]["blockReason"] == "PROHIBITED_CONTENT"
        assert "candidates" not in answer


@pytest.mark.rule("GEM-11", "GEM-28")
def test_unknown_fields_are_listed_in_the_details() -> None:
    body = ask(user(text(foo=1)), **tools(parameters={"type": "object", "additionalProperties": False}))
    answer = post(App(), body)
    error = answer.json()["error"]
    assert (answer.status, error["code"], error["status"]) == (400, 400, "INVALID_ARGUMENT")
    assert error["details"][0]["@type"] == "type.googleapis.com/google.rpc.BadRequest"
    fields = [violation["field"] for violation in error["details"][0]["fieldViolations"]]
    assert fields == ["contents[0].parts[0]", "tools[0].function_declarations[0].parameters"]


@pytest.mark.rule("GEM-00")
def test_without_a_known_key_nothing_is_answered() -> None:
    path = f"/gemini/v1beta/models/{NEWEST}:generateContent"
    nobody = ask_now(App(), "POST", path, json=ask(), headers={})
    assert (nobody.status, nobody.json()["error"]["status"]) == (403, "PERMISSION_DENIED")
    wrong = post(App(Emulator(keys=["right"])), ask()).json()["error"]
    assert wrong["message"] == "API key not valid. Please pass a valid API key."
    assert wrong["details"][0]["reason"] == "API_KEY_INVALID"
    assert ask_now(App(), "POST", f"{path}?key=AIza", json=ask(), headers={}).status == 200


def test_what_is_not_json_is_refused() -> None:
    path = f"/gemini/v1beta/models/{NEWEST}:generateContent"
    assert ask_now(App(), "POST", path, body=b"{", headers=HEADERS).status == 400


@pytest.mark.rule("GEM-44")
def test_a_rate_limit_says_in_its_details_how_long_to_wait() -> None:
    app = App()
    app.emulator.faults.append(Fault(status=429, retry_after=34.4))
    answer = post(app, ask())
    error = answer.json()["error"]
    assert (answer.status, error["status"]) == (429, "RESOURCE_EXHAUSTED")
    assert "retry-after" not in answer.headers
    assert error["details"][-1] == {
        "@type": "type.googleapis.com/google.rpc.RetryInfo",
        "retryDelay": "34.4s",
    }
    assert error["details"][1]["violations"][0]["quotaMetric"].startswith(
        "generativelanguage.googleapis.com/"
    )


@pytest.mark.rule("GEM-44", "GEM-57")
def test_an_error_in_a_stream_is_its_last_chunk() -> None:
    app = app_saying(Say("A long story. " * 10))
    app.emulator.faults.append(Fault(kind="error_mid_stream", status=503, at_byte=300))
    error = events(post(app, ask(), "streamGenerateContent?alt=sse"))[-1]["error"]
    assert (error["code"], error["status"]) == (503, "UNAVAILABLE")
    assert error["message"] == "The model is overloaded. Please try again later."


@pytest.mark.rule("GEM-46")
def test_tokens_are_counted_as_the_reply_counts_them() -> None:
    body = ask(user(text("How many?")), **tools())
    used = post(App(), body).json()["usageMetadata"]["promptTokenCount"]
    request = {"generateContentRequest": {"model": f"models/{NEWEST}", **body}}
    assert post(App(), request, "countTokens").json()["totalTokens"] == used
    assert post(App(), ask(), "countTokens").json()["totalTokens"] < used
    assert post(App(), {}, "countTokens").status == 400
    missing = post(App(), ask(), "countTokens", name="nonexistent-model").json()["error"]["message"]
    assert missing.startswith(
        "models/nonexistent-model is not found for API version v1beta, or is not supported for countTokens."
    )


@pytest.mark.rule("GEM-47")
def test_texts_are_embedded_one_by_one_and_at_most_a_hundred_at_once() -> None:
    one = {"model": f"models/{EMBEDDER}", "content": {"parts": [text("Hello")]}, "outputDimensionality": 8}
    single = post(App(), one, "embedContent", EMBEDDER).json()["embedding"]["values"]
    assert len(single) == 8
    many = post(App(), {"requests": [one] * 100}, "batchEmbedContents", EMBEDDER).json()["embeddings"]
    assert many == [{"values": single}] * 100
    refused = post(App(), {"requests": [one] * 101}, "batchEmbedContents", EMBEDDER)
    assert refused.json()["error"]["message"] == (
        "* BatchEmbedContentsRequest.requests: at most 100 requests can be in one batch\n"
    )
    assert post(App(), one, "embedContent", NEWEST).status == 404
    assert post(App(), ask(), name=EMBEDDER).status == 404
    assert post(App(), {}, "embedContent", EMBEDDER).status == 400


@pytest.mark.rule("GEM-45")
def test_models_are_listed_page_by_page_and_shown_one_by_one() -> None:
    def get(path: str) -> EmulatorResponse:
        return ask_now(App(), "GET", f"/gemini/v1beta{path}", headers=HEADERS)

    first = get("/models?pageSize=3").json()
    assert len(first["models"]) == 3
    rest = get(f"/models?pageSize=1000&pageToken={first['nextPageToken']}").json()
    assert "nextPageToken" not in rest
    names = [entry["name"] for entry in first["models"] + rest["models"]]
    assert f"models/{THREE}" in names
    assert get(f"/models/{NEWEST}").json()["thinking"] is True
    assert get(f"/models/{EMBEDDER}").json()["supportedGenerationMethods"][0] == "embedContent"
    assert get("/models/unknown").status == 404
    assert get("/models?pageSize=x").status == 400


def test_vertex_answers_under_its_own_path_and_signs_for_itself() -> None:
    base = "/gemini/v1/projects/p/locations/global/publishers/google/models"
    app = app_saying(Call("get_weather", {"city": "Paris"}))
    answer = ask_now(
        app, "POST", f"{base}/{THREE}:generateContent", json=ask(**tools()), headers=HEADERS
    ).json()
    body = ask(user(), answer["candidates"][0]["content"], user(response()), **tools())
    assert ask_now(app, "POST", f"{base}/{THREE}:generateContent", json=body, headers=HEADERS).status == 200
    assert post(app, body, name=THREE).json()["error"]["message"] == "Corrupted thought signature."


def test_a_repeated_prefix_is_read_from_the_cache() -> None:
    app = app_saying(Say("Yes."))
    body = ask(systemInstruction={"parts": [text("Know this. " * 2000)]})
    first, second = (post(app, body).json()["usageMetadata"] for _ in range(2))
    assert "cachedContentTokenCount" not in first
    assert 4096 < second["cachedContentTokenCount"] <= second["promptTokenCount"]


def test_without_a_script_the_agent_uses_the_offered_functions_and_finishes() -> None:
    app, body = App(), ask(user(text("Weather in Paris?")), **tools())
    for _ in range(8):
        content = post(app, body).json()["candidates"][0]["content"]
        calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        if not calls:
            break
        results = user(*[response(one["name"], id=one["id"]) for one in calls])
        body["contents"] += [content, results]
    assert not calls
