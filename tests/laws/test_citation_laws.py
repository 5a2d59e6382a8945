"""No citation disappears without a word: every wire that has some, at the door of every wire, whole and streamed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from laws.client_turns import (
    WIRES,
    folded,
    next_request,
    read_stream,
    respond_whole,
    responder_for,
    sent_back,
    write_stream,
)
from laws.test_reply_pairs import HEADERS, first_request, path_of, planned
from segue.conversation.blocks import Origin, Text
from segue.conversation.events import ArgumentsDelta, CallStarted, Cited, Event, Finished, Reply
from segue.conversation.message import Conversation, user
from segue.conversation.options import Options
from segue.dialects.registry import DIALECTS
from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.in_process import ask_now
from segue.providers.models.cards import default_model
from segue.transcript.adopt import adopt
from segue.transcript.blocks.citations import is_listed, source_list
from segue.transcript.client_wire import ClientRequest
from segue.transcript.respond import Responder
from strategies.cited_replies import CITED_REPLIES, TEXT, CitedReply

DOORS = (*WIRES, "openai_compatible")
NAMES = [cited.wire for cited in CITED_REPLIES]
every_source = pytest.mark.parametrize("cited", CITED_REPLIES, ids=NAMES)
both_ways = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def events_of(cited: CitedReply, *, stream: bool) -> list[Event]:
    if stream:
        return read_stream(cited.wire, [cited.stream])
    return DIALECTS[cited.wire].decode_reply(cited.whole)


def at_door(client: str, cited: CitedReply, *, stream: bool) -> tuple[bytes, Reply, Responder]:
    """What a client gets of a reply, what it reads in it, and what was reported."""
    made = responder_for(client, cited.wire, first_request(client), "nonce", streamed=stream)
    shown = respond_whole(made, events_of(cited, stream=stream))
    if stream:
        sent = write_stream(client, shown)
        return sent, folded(client, read_stream(client, [sent])), made
    sent = DIALECTS[client].encode_reply(folded(client, shown))
    return sent, folded(client, DIALECTS[client].decode_reply(sent)), made


def citations_in(reply: Reply) -> list[Any]:
    return [one for block in reply.message.blocks if type(block) is Text for one in block.citations]


def said(reply: Reply) -> str:
    """All that a client's reader may see: the text, and the sources that the wire names."""
    return f"{reply.message.text}\n{source_list(citations_in(reply))}"


@every_source
@both_ways
def test_a_reply_is_read_with_all_its_citations(cited: CitedReply, *, stream: bool) -> None:
    reply = folded(cited.wire, events_of(cited, stream=stream))
    assert reply.error is None
    for fact in cited.facts:
        assert fact in said(reply)


@every_source
@both_ways
@pytest.mark.parametrize("client", DOORS)
def test_no_citation_disappears_at_any_door(client: str, cited: CitedReply, *, stream: bool) -> None:
    _, reply, made = at_door(client, cited, stream=stream)
    assert reply.error is None
    assert TEXT in reply.message.text
    for fact in cited.facts:
        assert fact in said(reply)
    listed = "Sources:" in reply.message.text
    assert listed == any(repair.kind == "citations_as_text" for repair in made.repairs)
    assert not any(repair.lossy for repair in made.repairs)


@pytest.mark.parametrize("cited", [one for one in CITED_REPLIES if one.natives], ids=lambda one: one.wire)
@both_ways
def test_a_wire_gets_its_own_citations_back_unchanged(cited: CitedReply, *, stream: bool) -> None:
    sent, reply, made = at_door(cited.wire, cited, stream=stream)
    held = [value for body in _json_in(sent) for value in _values(body)]
    for native in cited.natives:
        assert json.loads(json.dumps(native)) in held
    assert "Sources:" not in reply.message.text
    assert not made.repairs


@both_ways
def test_search_engines_keep_the_lists_beside_their_choices(*, stream: bool) -> None:
    cited = next(one for one in CITED_REPLIES if one.wire == "openai_compatible")
    sent, _, _ = at_door(cited.wire, cited, stream=stream)
    whole = json.loads(cited.whole)
    assert any(
        all(body.get(name) == whole[name] for name in ("citations", "search_results"))
        for body in _json_in(sent)
    )


def _json_in(sent: bytes) -> list[Any]:
    """Every JSON value in a reply, whole or in frames."""
    found, decoder = [], json.JSONDecoder()
    text = sent.decode("utf-8", "ignore")
    at = text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except ValueError:
            end = at + 1
        else:
            found.append(value)
        at = text.find("{", end)
    return found


def _values(body: Any) -> list[Any]:
    held = body.values() if isinstance(body, dict) else body if isinstance(body, list) else ()
    return [body, *(inner for value in held for inner in _values(value))]


@every_source
@both_ways
@pytest.mark.parametrize("client", WIRES)
def test_a_client_sends_its_citations_back_and_its_own_provider_accepts_them(
    client: str, cited: CitedReply, *, stream: bool
) -> None:
    _, reply, _ = at_door(client, cited, stream=stream)
    body = next_request(client, first_request(client), sent_back(client, reply))
    asked = {name: held for name, held in body.items() if name != "stream"}
    own = App(Emulator())
    url = path_of(client, default_model(client), stream=False)
    answer = ask_now(own, "POST", url, json=asked, headers=HEADERS)
    assert (answer.status, own.emulator.log[-1].message) == (200, None)


@every_source
@pytest.mark.parametrize("other", WIRES)
def test_a_history_tells_another_model_the_sources_and_its_own_gets_them_as_they_came(
    cited: CitedReply, other: str
) -> None:
    message = folded(cited.wire, events_of(cited, stream=False)).message
    conversation = Conversation().append(user("Hello."), message, user("Go on."))
    made = planned(other, conversation, (), Options())
    body = made.body.decode()
    if other != cited.wire or not cited.natives:
        listed = any(is_listed(one) for block in message.blocks for one in getattr(block, "citations", ()))
        assert ("citations_as_text" in {repair.kind for repair in made.repairs}) == listed
        for fact in cited.facts:
            assert fact in body
    else:
        assert "Sources:" not in body
        assert "citations_as_text" not in {repair.kind for repair in made.repairs}
        if cited.wire not in ("gemini", "openai_chat"):  # their requests have no place for them
            held = _values(json.loads(body))
            assert all(json.loads(json.dumps(native)) in held for native in cited.natives)


@pytest.mark.parametrize(
    "cited",
    [
        one
        for one in CITED_REPLIES
        if one.wire in ("anthropic", "openai_responses", "openai_chat", "converse")
    ],
    ids=lambda one: one.wire,
)
@pytest.mark.parametrize("other", WIRES)
def test_citations_in_a_request_are_the_same_citations(cited: CitedReply, other: str) -> None:
    """A -> B -> A: B reads the sources, A gets its own message back as it was."""
    if cited.wire == other:
        return
    body = next_request(cited.wire, first_request(cited.wire), json.loads(cited.whole))
    decoded = DIALECTS[cited.wire].decode_request({"model": "m", **body})
    conversation = adopt(decoded.messages, system=decoded.system, dialect=cited.wire).conversation
    there = planned(other, conversation, (), Options())
    for fact in cited.facts:
        assert fact in there.body.decode()
    assert not any(
        "annotations" in repair.decision or "citations" in repair.decision for repair in there.repairs
    )
    back = json.loads(planned(cited.wire, conversation, (), Options()).body)
    held = _values(back)
    assert all(json.loads(json.dumps(native)) in held for native in cited.natives)


def test_places_in_documents_go_between_messages_and_converse_in_their_own_form() -> None:
    anthropic, converse = CITED_REPLIES[0], CITED_REPLIES[-1]
    _, reply, _ = at_door("converse", anthropic, stream=True)
    natives = [json.loads(one.native) for one in citations_in(reply)]
    assert {"documentChar": {"documentIndex": 0, "start": 3, "end": 23}} in [
        one.get("location") for one in natives
    ]
    _, reply, _ = at_door("anthropic", converse, stream=True)
    natives = [json.loads(one.native) for one in citations_in(reply)]
    assert [one["type"] for one in natives] == ["char_location", "page_location", "content_block_location"]


def test_sources_stand_before_a_call_and_never_in_json_that_the_client_reads() -> None:
    cited = CITED_REPLIES[0]
    events: list[Event] = [event for event in events_of(cited, stream=True) if type(event) is not Finished]
    events += [CallStarted(9, "t1", "read"), ArgumentsDelta(9, "{}"), Finished("tool_calls")]
    request = ClientRequest(wire=DIALECTS["ollama"].client, nonce="n")
    shown = respond_whole(Responder(request, Origin(cited.wire)), events)
    kinds = [type(event).__name__ for event in shown]
    assert kinds.index("CallStarted") > max(at for at, kind in enumerate(kinds) if kind == "TextDelta")
    strict = ClientRequest(wire=DIALECTS["ollama"].client, nonce="n", structured=True)
    made = Responder(strict, Origin(cited.wire))
    shown = respond_whole(made, events_of(cited, stream=True))
    assert folded("ollama", shown).message.text == TEXT
    assert [repair.kind for repair in made.repairs] == ["citations_dropped"]
    assert not any(type(event) is Cited for event in shown)
