"""The open-source validator of the provider itself judges the same conversations.

What it refuses, the emulator refuses, in the same words. What it accepts, the emulator accepts, save for four rules
of the hosted API that the library does not know: ids of nine characters on every model (MIS-01), no empty assistant
message (MIS-06), on older models no user right after a result (MIS-02), and no result as the first message (MIS-05).
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mistral_common.exceptions import MistralCommonException
from mistral_common.protocol.instruct.messages import ChatMessage
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.protocol.instruct.validator import ValidationMode, get_validator
from mistral_common.tokens.tokenizers.base import TokenizerVersion
from mistral_common.utils.json_utils import validate_json_schema_by_draft7
from pydantic import ValidationError

from emulators.mistral.requests import FIRST, SECOND, context
from segue.emulators.mistral.checks import complaints, mistakes
from segue.emulators.rules import enforced

VERSIONS = [
    ("open-mixtral-8x7b", TokenizerVersion.v1),
    ("open-mistral-7b", TokenizerVersion.v3),
    ("mistral-large-2411", TokenizerVersion.v7),
    ("mistral-small-2506", TokenizerVersion.v11),
    ("ministral-8b-latest", TokenizerVersion.v13),
    ("mistral-small-latest", TokenizerVersion.v15),
]
ONLY_HOSTED = {"MIS-01", "MIS-02", "MIS-06"}

IDS = st.sampled_from([FIRST, SECOND, "null", "", "call_1"])
NAMES = st.sampled_from(["get_weather", "a.b", "f"])
CHUNKS = st.sampled_from(
    [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": "https://example.com/a.png"},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}},
        {"type": "audio_url", "audio_url": "https://example.com/a.mp3"},
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "surprise"},
    ]
)
CONTENT = st.one_of(st.sampled_from(["", "hello", None, 7]), st.lists(CHUNKS, max_size=2))


@st.composite
def calls(draw: st.DrawFn) -> dict[str, Any]:
    arguments: Any = draw(st.sampled_from(["{}", "{bad", {"a": 1}, None, []]))
    made: dict[str, Any] = {"id": draw(IDS), "function": {"name": draw(NAMES), "arguments": arguments}}
    if draw(st.booleans()):
        del made["id"]
    if draw(st.integers(0, 9)) == 0:
        made["name"] = "f"
    return made


@st.composite
def messages(draw: st.DrawFn) -> dict[str, Any]:
    role = draw(
        st.sampled_from(["user", "user", "assistant", "assistant", "tool", "tool", "system", "developer"])
    )
    message: dict[str, Any] = {"role": role, "content": draw(CONTENT)}
    if role == "assistant":
        message |= {"tool_calls": draw(st.one_of(st.none(), st.lists(calls(), max_size=2)))}
        message |= {"prefix": True} if draw(st.integers(0, 5)) == 0 else {}
    if role == "tool":
        message |= {"tool_call_id": draw(st.one_of(IDS, st.none()))}
        message |= {"name": draw(NAMES)} if draw(st.integers(0, 5)) == 0 else {}
    if draw(st.integers(0, 20)) == 0:
        message["reasoning_content"] = "hm"
    return message


@st.composite
def likely_messages(draw: st.DrawFn) -> dict[str, Any]:
    """Messages that fit the schema, so that order and pairing are reached often."""
    role = draw(st.sampled_from(["user", "assistant", "assistant", "tool", "tool", "system"]))
    message: dict[str, Any] = {"role": role, "content": "hello"}
    if role == "assistant":
        made = [
            {"id": i, "function": {"name": "f", "arguments": "{}"}} for i in draw(st.lists(IDS, max_size=2))
        ]
        message |= {"content": draw(st.sampled_from([None, "", "so"])), "tool_calls": made or None}
    if role == "tool":
        message |= {"tool_call_id": draw(IDS)}
    return message


CONVERSATIONS = st.one_of(
    st.lists(messages(), max_size=4), st.lists(likely_messages(), min_size=2, max_size=6)
)


def library_form(message: dict[str, Any]) -> dict[str, Any]:
    """The library writes thoughts as one string, the wire as a list."""
    if not isinstance(message["content"], list):
        return message
    plain = [
        {**chunk, "thinking": chunk["thinking"][0]["text"]} if chunk["type"] == "thinking" else chunk
        for chunk in message["content"]
    ]
    return {**message, "content": plain}


def library_verdict(history: list[dict[str, Any]], version: TokenizerVersion) -> str | None:
    """None when the library accepts, "" when the schema refuses, else the validator's words."""
    body = {"model": "m", "messages": [library_form(message) for message in history]}
    try:
        request = ChatCompletionRequest[ChatMessage].model_validate(body)
        get_validator(version, ValidationMode.serving).validate_request(request)
    except ValidationError:
        return ""
    except MistralCommonException as refusal:
        return refusal.message.replace("with prefix)", "with prefix True)")
    except ValueError as refusal:
        return str(refusal)
    return None


@pytest.mark.parametrize(("model", "version"), VERSIONS)
@given(history=CONVERSATIONS)
def test_the_library_and_the_emulator_agree(
    model: str, version: TokenizerVersion, history: list[dict[str, Any]]
) -> None:
    circumstances = context(model)
    found = [
        refusal
        for refusal in complaints({"model": model, "messages": history}, circumstances)
        if enforced(refusal, circumstances)
    ]
    verdict = library_verdict(history, version)
    # The oldest validators refuse an empty assistant message too, as one with "both" content and calls.
    old = version in (TokenizerVersion.v1, TokenizerVersion.v3)
    beyond = ONLY_HOSTED - {"MIS-06"} if old else ONLY_HOSTED
    known = [refusal for refusal in found if refusal.rule not in beyond]
    if verdict != "" and len(history) > 1 and history[0]["role"] == "tool":
        assert "MIS-05" in {refusal.rule for refusal in found}
        return
    if verdict is None:
        assert known == []
    elif verdict == "":
        assert found[0].status == 422
    else:
        assert known[0].message.replace("but not none.", "but not both.") == verdict


VALUES = st.recursive(
    st.sampled_from([None, True, 0, -1, 1.5, "", "string", "object", "objct"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=2)
    ),
    max_leaves=4,
)
KEYWORDS = st.sampled_from(
    [
        "type",
        "properties",
        "required",
        "items",
        "enum",
        "anyOf",
        "not",
        "minLength",
        "maximum",
        "multipleOf",
        "uniqueItems",
        "additionalProperties",
        "description",
        "definitions",
        "dependencies",
        "x-own",
    ]
)
SCHEMAS = st.recursive(
    st.dictionaries(KEYWORDS, VALUES, max_size=3),
    lambda inner: st.one_of(
        st.builds(lambda schema: {"type": "object", "properties": {"a": schema}}, inner),
        st.builds(lambda schema: {"items": [schema, True]}, inner),
        st.builds(lambda schema: {"anyOf": [schema]}, inner),
    ),
    max_leaves=3,
)


@pytest.mark.rule("MIS-V22")
@given(schema=SCHEMAS)
def test_the_reference_validator_and_the_emulator_agree_on_what_a_schema_is(schema: dict[str, Any]) -> None:
    try:
        validate_json_schema_by_draft7(value=schema)
        valid = True
    except ValueError:
        valid = False
    assert (next(mistakes(schema), None) is None) == valid
