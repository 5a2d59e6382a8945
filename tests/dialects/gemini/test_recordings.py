"""What Google really answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dialects.recordings import without_price_facts
from dialects.traffic import recordings
from laws.emulated import complaints_about
from segue.conversation.blocks import Origin
from segue.conversation.events import Event, fold
from segue.conversation.message import Conversation
from segue.dialects.card import fit_rules
from segue.dialects.gemini import DIALECT
from segue.errors import ProviderError
from segue.providers.models.cards import card_for_model
from segue.transcript.adopt import adopt
from segue.transcript.render import render

if TYPE_CHECKING:
    from dialects.traffic import Recording

HERE = Origin("gemini")


def spoken() -> list[Recording]:
    return [
        recording
        for recording in recordings("gemini", "vertex")
        if ":generateContent" in recording.url
        or ":streamGenerateContent" in recording.url
        or recording.name.startswith("gemini__chat")
    ]


def heard(body: bytes) -> list[Event]:
    decoder = DIALECT.new_decoder()
    return decoder.feed(body) + decoder.close()


def test_every_recorded_reply_is_understood_and_told_again_without_loss() -> None:
    understood = 0
    for recording in spoken():
        if recording.refused or b'"error"' in recording.body[:40]:
            continue
        streamed = bool(recording.stream) or recording.body.startswith(b"[")
        events = heard(recording.body) if streamed else DIALECT.decode_reply(recording.body)
        reply = without_price_facts(fold(events, HERE))
        assert reply.error is None, recording.name
        assert fold(DIALECT.decode_reply(DIALECT.encode_reply(reply)), HERE).message == reply.message
        encoder = DIALECT.new_encoder(reply.model)
        again = without_price_facts(fold(heard(b"".join(map(encoder.feed, events)) + encoder.close()), HERE))
        assert (again.message, again.usage, again.finish) == (reply.message, reply.usage, reply.finish)
        understood += 1
    assert understood > 100


def test_a_recorded_stream_is_the_same_however_it_is_cut() -> None:
    for recording in spoken():
        if recording.stream and not recording.refused and len(recording.body) < 20_000:
            whole = fold(heard(recording.body), HERE)
            decoder = DIALECT.new_decoder()
            cut = [recording.body[start : start + 7] for start in range(0, len(recording.body), 7)]
            events = [event for portion in cut for event in decoder.feed(portion)] + decoder.close()
            assert fold(events, HERE) == whole


def test_every_recorded_refusal_has_a_class() -> None:
    refusals = [recording for recording in spoken() if recording.refused]
    assert refusals
    for recording in refusals:
        error = DIALECT.decode_error(recording.status, recording.headers, recording.body)
        assert type(error) is not ProviderError, recording.name


def test_every_request_that_was_accepted_is_read_and_would_be_accepted_again() -> None:
    read = 0
    for recording in spoken():
        if (
            recording.refused
            or not isinstance(recording.request, dict)
            or "contents" not in recording.request
        ):
            continue
        model = recording.url.partition("/models/")[2].partition(":")[0]
        card = card_for_model(model, "gemini")
        decoded = DIALECT.decode_request({**recording.request, "model": model})
        adopted = adopt(decoded.messages, system=decoded.system, dialect="gemini")
        conversation = Conversation(adopted.conversation.messages, decoded.system)
        transcript = render(conversation, None, fit_rules(DIALECT.rules.at(model=model), card))
        encoded = DIALECT.encode_request(transcript, decoded.tools, decoded.options, card)
        assert encoded.body
        read += 1
    assert read > 100
    assert complaints_about({"contents": [{"parts": [{"text": "Hi"}]}]}, "gemini", "gemini-3.5-flash") == []
