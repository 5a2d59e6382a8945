"""A conversation as a versioned JSON document."""

from __future__ import annotations

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.conversation.blocks import Code, Media, Origin, Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.document import (
    VERSION,
    decode_document,
    document_schema,
    encode_document,
    read_document,
)
from segue.conversation.interaction import Interaction, Ledger
from segue.conversation.message import Conversation, Message, model, tool, user
from segue.conversation.options import Options
from segue.conversation.tools import Named, ToolSpec
from segue.errors import TranscriptError
from segue.transcript.adopt import adopt, rebuild
from segue.transcript.render import render
from strategies.histories import CYCLE, conversations
from strategies.targets import TARGETS

ORIGIN = Origin("anthropic", "anthropic", "https://api.invalid", "model-1")
PRIVATE = "sk-very-secret"
WHOLE = Conversation(system="Be brief.").append(
    user("hello", Media("image", "image/png", "aGVsbG8=", name="cat.png")),
    model(
        Reasoning("hm", Seal(ORIGIN, "SEAL", made_under="print")),
        "let me look",
        Code("print(1)", "python"),
        ToolCall("", "read", {"path": "a"}, '{"path": "a"}', "toolu_1"),
        origin=ORIGIN,
    ),
    tool(ToolResult("c0", "read", {"lines": [1, 2]}, native_id="toolu_1")),
    Message("user", (Text("note"),), instruction=True),
)


@pytest.mark.requirement("Property 12")
def test_reading_what_was_written_gives_the_same_conversation() -> None:
    ledger = rebuild(WHOLE)
    back, book = decode_document(encode_document(WHOLE, ledger))
    assert back == WHOLE
    assert book is not None
    assert dict(book) == dict(ledger)


def test_a_document_without_a_ledger_has_none() -> None:
    assert decode_document(encode_document(WHOLE).decode()) == (WHOLE, None)


def test_tools_options_and_dialect_are_kept_beside_it() -> None:
    options = Options(model="m", temperature=0.5, tool_choice=Named("read"), extra={"x": 1})
    tools = (ToolSpec("read", "Read.", {"type": "object"}),)
    data = encode_document(WHOLE, tools=tools, options=options, dialect="openai_chat")
    document = read_document(json.loads(data))
    assert (document.tools, document.options, document.dialect) == (tools, options, "openai_chat")


VALIDATOR = jsonschema.Draft202012Validator(document_schema())


@given(st.data())
def test_every_document_follows_the_schema(data: st.DataObject) -> None:
    written = encode_document(data.draw(conversations(TARGETS["anthropic"])))
    VALIDATOR.validate(json.loads(written))


def test_the_schema_names_itself_and_demands_the_version() -> None:
    schema = document_schema()
    assert schema["$id"] == "urn:segue:conversation:1"
    assert {"segue", "version", "messages"} <= set(schema["required"])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"messages": []}, schema)


@pytest.mark.requirement("REQ-915-038")
def test_values_json_cannot_say_are_written_in_a_form_it_can_and_stay_as_they_were() -> None:
    call = ToolCall("c0", "read", CYCLE)
    result = ToolResult("c0", "read", {"n": float("nan"), "b": b"x"})
    conversation = Conversation((model(call), tool(result)))
    data = encode_document(
        conversation,
        Ledger([Interaction(call, result), Interaction(ToolCall("c1", "write"))]),
        tools=(ToolSpec("read", parameters=CYCLE),),
        options=Options(extra={"cycle": CYCLE}, response_schema={"const": float("inf")}),
    )
    back, ledger = decode_document(data)
    assert back.messages[0].calls[0].arguments == {"name": "cycle", "itself": "(circular)"}
    assert back.messages[1].blocks == (ToolResult("c0", "read", {"n": "nan", "b": {"base64": "eA=="}}),)
    assert ledger is not None
    assert ledger["c1"].result is None
    assert call.arguments is CYCLE


def test_lone_surrogates_and_huge_numbers_survive_exactly() -> None:
    conversation = Conversation(
        (user("\ud83d half"), model(ToolCall("c0", "\udc80", {"n": 2**100, "\ud800": 1})))
    )
    assert decode_document(encode_document(conversation)) == (conversation, None)


@pytest.mark.requirement("REQ-915-046")
def test_a_reconstructed_call_stays_known_as_one_after_it_was_saved() -> None:
    adopted = adopt((user("a"), tool(ToolResult("gone", "read", "content")))).conversation
    ledger = rebuild(adopted)
    back, book = decode_document(encode_document(adopted, ledger))
    rules = TARGETS["openai_chat"]
    assert render(back, book, rules).steps == render(adopted, ledger, rules).steps
    assert render(back, book, rules).repairs == ()


def refusal(data: bytes | str) -> TranscriptError:
    with pytest.raises(TranscriptError) as refused:
        decode_document(data)
    error = refused.value
    assert error.message
    assert error.hint
    assert error.remedy == "fix"
    assert PRIVATE not in str(error)
    assert PRIVATE not in json.dumps(error.as_dict())
    return error


def document(**fields: Any) -> str:
    return json.dumps({"segue": "conversation", "version": 1, "messages": [], **fields})


@pytest.mark.parametrize("data", ["", "{", b"\xff\xfe", f'{{"key": "{PRIVATE}', "[" * 100_000])
def test_what_is_not_json_is_refused(data: bytes | str) -> None:
    assert refusal(data).code == "not_json"


@pytest.mark.parametrize(
    ("data", "path"),
    [("[]", ""), (f'"{PRIVATE}"', ""), ("{}", "segue"), (json.dumps({"messages": [PRIVATE]}), "segue")],
)
def test_json_that_is_no_conversation_is_refused(data: str, path: str) -> None:
    error = refusal(data)
    assert (error.code, error.path) == ("not_a_conversation", path)
    assert "segue convert" in error.hint


@pytest.mark.parametrize("version", [None, "1", 0, -1, True, 1.5, [], PRIVATE])
def test_a_version_that_is_none_is_refused(version: Any) -> None:
    error = refusal(document(version=version))
    assert (error.code, error.path) == ("bad_version", "version")


def test_a_newer_version_is_refused_and_nothing_is_lost() -> None:
    error = refusal(document(version=VERSION + 1, messages=[{"new": PRIVATE}]))
    assert (error.code, error.path) == ("newer_version", "version")
    assert "Nothing was changed" in error.hint
    assert str(VERSION + 1) in str(error)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"messages": [{"speaker": "user", "blocks": [{"type": "text"}]}]}, "messages[0].blocks[0]"),
        ({"messages": [{"speaker": "assistant", "blocks": []}]}, "messages[0].speaker"),
        ({"messages": [{"speaker": "user", "blocks": [{"type": "video"}]}]}, "messages[0].blocks[0].type"),
        ({"messages": 3}, "messages"),
        ({"unknown_field": PRIVATE}, ""),
        ({"ledger": [{"call": {"type": "tool_call", "id": "", "name": "read"}}]}, "ledger[0].call.id"),
    ],
)
def test_what_does_not_fit_the_schema_is_refused_with_its_path(fields: dict[str, Any], path: str) -> None:
    error = refusal(document(**fields))
    assert (error.code, error.path) == ("bad_document", path)
