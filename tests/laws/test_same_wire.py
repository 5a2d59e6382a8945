"""Same wire, nothing lost: what a client sent comes out for its own wire and model as it came, its own fields included.

`make same-wire` compares every recorded request; the suite takes all requests of real clients and a sample of the rest.
"""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws.emulated import EMULATED, complaints_about
from laws.real_wire_requests import CORPUS, WireRequest, accepted_requests, client_requests
from segue.conversation.blocks import Origin
from segue.conversation.tools import ToolSpec
from segue.dialects.card import UNKNOWN
from segue.dialects.plan import plan
from segue.dialects.registry import DIALECTS, NAMES
from segue.providers.models.cards import card_for_model, default_model
from segue.transcript.adopt import adopt
from segue.transcript.repairs import Repair
from strategies.histories import whole_conversations

needs_corpus = pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not here")

EXPLAINED = {
    "gemini/010": "result_superseded",  # two results for one call, which the provider refuses (GEM-04)
    "opencode/022": "call_seal_filled",  # a call without a signature, which newer models want (GEM-21)
    "pi/009": "call_seal_filled",
    "pi/008": "call_seal_filled",
    "pi/022": "call_seal_filled",
    "continue/005": "hints_dropped",  # `stream_options`, which the provider refuses (MIS-08)
    "qwen/002": "hints_dropped",
    "pi/011": "option_not_sent",  # a level of effort that the model does not have
}
"""Requests of clients that do not come back as they came, and the repair that says why."""


def again(request: WireRequest, to: str = "", model: str = "") -> tuple[Any, tuple[Repair, ...]]:
    """The request read, adopted and planned: for its own wire and model, or for another."""
    read = DIALECTS[request.dialect].decode_request(request.body)
    adopted = adopt(read.messages, system=read.system, dialect=request.dialect)
    to, model = to or request.dialect, model or read.options.model
    planned = plan(
        adopted.conversation,
        None,
        target=Origin(to, model=model),
        card=card_for_model(model, to) if model else UNKNOWN,
        tools=read.tools,
        options=type(read.options)(
            **{
                **{name: getattr(read.options, name) for name in read.options.__struct_fields__},
                "model": model,
            }
        ),
    )
    return json.loads(planned.body), (*read.repairs, *adopted.repairs, *planned.repairs)


def sent(request: WireRequest) -> dict[str, Any]:
    """The body as the client sent it: Gemini's and Converse's have the model in their address."""
    in_address = request.dialect == "converse"
    if request.dialect == "gemini":
        in_address = not str(request.body.get("model")).startswith("models/")
    if in_address:
        return {name: value for name, value in request.body.items() if name != "model"}
    return request.body


@needs_corpus
def test_requests_of_real_clients_come_back_as_they_came() -> None:
    different = {}
    for request in client_requests():
        body, repairs = again(request)
        if body != sent(request):
            different[request.name] = {repair.kind for repair in repairs}
    unexplained = {name: kinds for name, kinds in different.items() if EXPLAINED.get(name) not in kinds}
    assert unexplained == {}


@needs_corpus
def test_a_recorded_request_that_took_no_repair_comes_back_as_it_came() -> None:
    one_in = 1 if os.environ.get("SEGUE_SAME_WIRE") else 12
    silent = []
    for request in accepted_requests(one_in=one_in):
        try:
            body, repairs = again(request)
        except Exception as error:  # some recordings are of other wires than their address says
            silent.append((request.name, repr(error)[:200])) if "tool_choice" not in str(error) else None
            continue
        if body != sent(request) and not repairs:
            silent.append((request.name, ""))
    assert silent == []


@needs_corpus
@pytest.mark.parametrize("to", EMULATED)
def test_requests_of_real_clients_are_accepted_by_every_other_wire(to: str) -> None:
    model = default_model(to)
    refused = {}
    for request in list(client_requests())[:: 1 if os.environ.get("SEGUE_SAME_WIRE") else 6]:
        if request.dialect == to:
            continue
        body, _ = again(request, to, model)
        complaints = complaints_about(body, to, model)
        if complaints:
            refused[request.name] = complaints[:2]
    assert refused == {}


# Generated requests

EXAMPLES = max(6, settings().max_examples // 5)
_SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
TOOLS = (ToolSpec("read", "Read a file.", _SCHEMA), ToolSpec("write", "Write a file.", _SCHEMA))
_MARKS = st.sampled_from(
    [("cache_control", {"type": "ephemeral"}), ("new_field", 1), ("id", "item"), ("status", "completed")]
)


@cache
def _messages_field(name: str) -> str:
    return DIALECTS[name].messages_field


def _marked(
    body: dict[str, Any], name: str, places: list[tuple[int, int, tuple[str, Any]]]
) -> dict[str, Any]:
    """The body with fields of the wire's own: on messages, their parts, tools, and beside all of them."""
    for number, (where, index, (field, value)) in enumerate(places):
        messages = body[_messages_field(name)]
        objects: list[dict[str, Any]] = [body]
        if isinstance(messages, list):
            objects = [message for message in messages if isinstance(message, dict)] or objects
        if where == 1:
            tools = body.get("tools") or [body]
            objects = [tool for tool in tools if isinstance(tool, dict)]
        if where == 2:
            held = [message.get("content", message.get("parts")) for message in objects]
            parts = [part for content in held if isinstance(content, list) for part in content]
            objects = [part for part in parts if isinstance(part, dict)] or objects
        if where == 3:
            objects = [body]
        objects[index % len(objects)].setdefault(field, f"item_{number}" if field == "id" else value)
    return body


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_what_we_write_comes_back_also_with_fields_that_are_new_to_us(name: str, data: st.DataObject) -> None:
    conversation = data.draw(whole_conversations()).conversation
    model = default_model(name) or "some-model"
    read = DIALECTS[name].decode_request
    first = plan(
        conversation,
        None,
        target=Origin(name, model=model),
        card=card_for_model(model, name),
        tools=TOOLS,
        options=read({_messages_field(name): [], "model": model}).options,
    )
    places = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20), _MARKS), max_size=4)
    body = _marked(json.loads(first.body), name, data.draw(places))
    request = WireRequest("generated", name, {**body, "model": model})
    found, repairs = again(request)
    if not [repair for repair in repairs if repair.kind not in ("call_seal_filled", "reasoning_filled")]:
        assert found == sent(request)
