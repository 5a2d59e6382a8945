"""What another wire has no place for is sent in words where words can hold it, and reported where they cannot."""

from __future__ import annotations

import json
from typing import Any

import pytest

from segue import convert
from segue.conversation.blocks import Media, Origin, Text
from segue.conversation.events import Reply, fold
from segue.conversation.message import Message
from segue.dialects import DIALECTS

NOTES = {
    "type": "document",
    "source": {"type": "text", "media_type": "text/plain", "data": "Milk and bread."},
    "title": "Shopping",
}
WITHOUT_DOCUMENTS = ("openai_chat", "openai_responses", "mistral", "ollama")


def _sent(body: dict[str, Any], to: str) -> tuple[str, list[tuple[str, bool]]]:
    converted = convert(body, to=to)
    return converted.body.decode(), [(repair.kind, repair.lossy) for repair in converted.repairs]


@pytest.mark.parametrize("to", WITHOUT_DOCUMENTS)
def test_a_document_of_text_is_sent_as_text_with_its_title(to: str) -> None:
    said = [NOTES, {"type": "text", "text": "What is missing?"}]
    body = {"model": "claude-sonnet-4-6", "max_tokens": 99, "messages": [{"role": "user", "content": said}]}
    sent, repairs = _sent(body, to)
    assert '[document \\"Shopping\\", text/plain]\\nMilk and bread.' in sent
    assert repairs == [("document_as_text", False)]


@pytest.mark.parametrize("to", WITHOUT_DOCUMENTS)
def test_a_document_of_text_in_a_result_is_sent_as_text_of_the_result(to: str) -> None:
    body = {
        "model": "claude-sonnet-4-6",
        "max_tokens": 99,
        "messages": [
            {"role": "user", "content": "Read."},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [NOTES]}],
            },
        ],
    }
    sent, repairs = _sent(body, to)
    last = json.loads(sent)["input" if to == "openai_responses" else "messages"][-1]
    output = last.get("output") or last["content"]
    assert output == '[document "Shopping", text/plain]\nMilk and bread.'
    assert repairs == [("document_as_text", False)]


def test_a_document_that_is_no_text_is_described() -> None:
    source = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
    said = [{"type": "document", "source": source, "title": "Report"}]
    body = {"model": "claude-sonnet-4-6", "max_tokens": 99, "messages": [{"role": "user", "content": said}]}
    sent, repairs = _sent(body, "ollama")
    assert '[document \\"Report\\", application/pdf' in sent
    assert repairs == [("media_described", True)]
    sent, repairs = _sent(body, "gemini")
    assert "Report" not in sent
    assert repairs == [("fields_dropped", True)]


def test_citations_of_the_chat_wire_become_words_and_that_is_reported() -> None:
    cited = {"type": "url_citation", "url_citation": {"url": "https://e.org", "title": "E", "start_index": 0}}
    history: list[dict[str, Any]] = [
        {"role": "user", "content": "Where?"},
        {"role": "assistant", "content": "There.", "annotations": [cited]},
        {"role": "user", "content": "And?"},
    ]
    sent, repairs = _sent({"model": "gpt-4.1", "messages": history}, "anthropic")
    assert repairs == [("citations_as_text", False)]
    assert "https://e.org" in sent
    history[1]["annotations"] = []
    assert _sent({"model": "gpt-4.1", "messages": history}, "anthropic")[1] == []


@pytest.mark.parametrize("to", ["anthropic", "openai_chat", "gemini", "mistral", "ollama"])
def test_the_description_of_a_namespace_stands_in_those_of_its_tools(to: str) -> None:
    find, drop = (
        {"type": "function", "name": name, "description": f"To {name}."} for name in ("find", "drop")
    )
    group = {"type": "namespace", "name": "crm", "description": "All about customers.", "tools": [find, drop]}
    body = {"model": "gpt-5.5", "input": "Hello.", "tools": [group]}
    sent, repairs = _sent(body, to)
    assert sent.count("crm: All about customers.") == 2
    assert not any(lossy for _, lossy in repairs)
    assert json.loads(convert(body, to="openai_responses").body)["tools"] == [group]


def test_the_transcript_of_a_spoken_reply_is_its_text() -> None:
    chat = DIALECTS["openai_chat"]
    message = Message(
        "model", (Text("It rains."), Media("audio", "audio/wav", "UklGRg==")), Origin("openai_chat")
    )
    shown = json.loads(chat.encode_reply(Reply(message, id="r")))["choices"][0]["message"]
    assert (shown["content"], shown["audio"]["transcript"]) == (None, "It rains.")
    again = fold(chat.decode_reply(chat.encode_reply(Reply(message, id="r"))), Origin("openai_chat"))
    assert again.message.text == "It rains."


def _twins(second: str) -> dict[str, Any]:
    tools = [
        {"type": "function", "function": {"name": "find", "description": said}} for said in ("One.", second)
    ]
    return {"model": "gpt-4.1", "messages": [{"role": "user", "content": "Hello."}], "tools": tools}


@pytest.mark.parametrize("to", ["anthropic", "gemini", "mistral", "ollama", "kimi"])
def test_of_two_tools_with_one_name_one_is_sent_and_that_is_reported(to: str) -> None:
    sent, repairs = _sent(_twins("Two."), to)
    assert (sent.count('"find"'), "One." in sent, "Two." in sent) == (1, True, False)
    assert repairs[0] == ("tool_not_offered", True)
    sent, repairs = _sent(_twins("One."), to)
    assert sent.count('"find"') == 1
    assert repairs[0] == ("field_corrected", False)


def test_two_tools_with_one_name_stay_two_on_a_wire_that_takes_them() -> None:
    assert json.loads(convert(_twins("Two."), to="openai_chat").body)["tools"] == _twins("Two.")["tools"]


@pytest.mark.parametrize("to", ["anthropic", "gemini", "mistral", "ollama"])
def test_a_function_is_offered_beside_a_tool_of_the_same_name_that_only_another_provider_runs(
    to: str,
) -> None:
    tools = [{"type": "web_search"}, {"type": "function", "name": "web_search", "parameters": None}]
    sent, repairs = _sent({"model": "gpt-5.5", "input": "hi", "tools": tools}, to)
    assert '"name":"web_search"' in sent
    assert [kind for kind, _ in repairs if kind == "tool_not_offered"] == ["tool_not_offered"]


def test_tools_of_google_have_no_names_that_a_function_could_share() -> None:
    tools = [{"mcpServers": [{"name": "a"}]}, {"mcpServers": [{"name": "b"}]}, {"googleSearch": {}}]
    body = {
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "tools": [*tools, {"functionDeclarations": [{"name": "googleSearch"}]}],
    }
    converted = convert(body, to="gemini", source="gemini", model="gemini-3.5-flash")
    assert (converted.request["tools"], converted.repairs) == (body["tools"], ())


@pytest.mark.parametrize("data", ["-__-aGk=", "-__-aGk", "+//+aGk"])
@pytest.mark.parametrize("to", ["anthropic", "openai_chat", "openai_responses", "mistral", "converse"])
def test_an_image_that_googles_sdk_encodes_for_urls_is_shown(to: str, data: str) -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": data}}
    body = {"contents": [{"role": "user", "parts": [{"text": "What is it?"}, image]}]}
    sent, repairs = _sent(body, to)
    assert "+//+aGk=" in sent
    assert repairs == []


@pytest.mark.parametrize(
    ("to", "model"),
    [("anthropic", "claude-sonnet-4-5"), ("converse", "us.anthropic.claude-sonnet-4-5-20250929-v1:0")],
)
def test_a_beginning_that_the_model_is_to_continue_ends_without_white_space(to: str, model: str) -> None:
    said = [{"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": [{"text": "Well, \n"}]}]
    converted = convert({"contents": said}, to=to, model=model)
    assert '"Well,"' in converted.body.decode()
    assert [repair.kind for repair in converted.repairs] == ["blank_text"]
