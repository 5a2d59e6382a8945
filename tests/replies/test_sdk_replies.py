"""Recorded replies of real providers, answered on every wire and read by that wire's official client over loopback.

A sample in the suite; all of them with `make replies`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest

from dialects.traffic import CORPUS
from replies.recorded import RecordedReply, recorded_replies
from replies.sdks import Canned, Read, Reader, loopback, readers
from segue.conversation.blocks import Origin, Reasoning, Text
from segue.conversation.events import Event, Failed, Reply, fold
from segue.dialects.registry import DIALECTS
from segue.transcript.blocks.citations import without_source_list
from segue.transcript.client_wire import ClientRequest
from segue.transcript.respond import Responder

pytestmark = pytest.mark.skipif(
    not CORPUS.is_dir(), reason="the recorded traffic is not beside this repository"
)
for _name in ("openai", "anthropic", "google.genai", "mistralai.client", "ollama"):
    pytest.importorskip(_name, reason="an official client is not installed")

ALL = bool(os.environ.get("SEGUE_REPLIES"))
EVERY = 1 if ALL else 197
BROKEN = {
    "anthropic__chat__vercel-ai__29.json": "the recorded arguments are no JSON, and each client shows that its own way",
    "openai__v1-responses__Mirascope-mirascope__177.json": "the recorded arguments were cut off by a limit",
    "openai__responses__vercel-ai__40.json": "the recorded image was shortened and is no base64 any more",
}
"""Recordings that no client can read in full, and why."""
CLIENTS = ("openai_chat", "openai_responses", "anthropic", "gemini", "mistral", "ollama")


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Canned, dict[str, Reader]]]:
    with loopback() as (url, canned), readers(url) as made:
        yield canned, made


def answer(client: str, recorded: RecordedReply, *, stream: bool) -> tuple[Responder, list[Event], bytes]:
    request = ClientRequest(wire=DIALECTS[client].client, nonce=recorded.name, model="asked-for")
    responder = Responder(request, Origin(recorded.maker), streamed=stream)
    sent = [made for event in recorded.events for made in responder.feed(event)] + responder.close()
    if not stream:
        return responder, sent, DIALECTS[client].encode_reply(fold(sent, Origin(client)))
    encoder = DIALECTS[client].new_encoder("asked-for")
    return responder, sent, b"".join(encoder.feed(event) for event in sent) + encoder.close()


def expected(client: str, reply: Reply) -> Read:
    """What the program must see of the reply that the client was sent."""
    finish = reply.finish
    if client == "ollama":  # OLL-21, OLL-22: it has no other words
        finish = "length" if finish == "length" else "stop"
    calls = [
        ("" if client == "ollama" else call.native_id, call.name, call.arguments)
        for call in reply.message.calls
    ]
    # What Gemini's own tools did is text for others; for itself it is a part of its own.
    text = "".join(
        block.text
        for block in reply.message.blocks
        if isinstance(block, Text) and (block.seal is None or block.seal.kind != "encrypted")
    )
    reasoning = "".join(block.text for block in reply.message.blocks if isinstance(block, Reasoning))
    counts = (reply.usage.input_tokens, reply.usage.output_tokens)
    return Read(text, reasoning, calls, finish, counts)


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # of a client about its own types
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_every_official_client_reads_what_the_provider_answered(
    served: tuple[Canned, dict[str, Reader]],
    stream: bool,
) -> None:
    canned, clients = served
    seen: Counter[str] = Counter()
    wrong: list[str] = []
    for recorded in recorded_replies(EVERY):
        if recorded.name in BROKEN:
            continue
        given = fold(recorded.events, Origin(recorded.maker))
        for client in CLIENTS:
            responder, sent, canned.body = answer(client, recorded, stream=stream)
            if isinstance(sent[-1], Failed):
                seen["failed"] += 1
                continue
            streaming = "application/x-ndjson" if client == "ollama" else "text/event-stream"
            canned.type = streaming if stream else "application/json"
            reply = fold(sent, Origin(client))
            seen[client] += 1
            try:
                read = clients[client](stream)
            except Exception as error:
                wrong.append(f"{recorded.name} → {client}: {type(error).__name__}: {error}"[:400])
                continue
            wanted = expected(client, reply)
            if stream and client == "anthropic" and wanted.usage[0] is None:
                # Its stream names the counts in the first event, where 0 stands for what is not known yet.
                wanted.usage = (0, wanted.usage[1])
            wrong += [
                f"{recorded.name} → {client}: {field} {getattr(read, field)!r}, not {getattr(wanted, field)!r}"[
                    :400
                ]
                for field in Read.__struct_fields__
                if getattr(read, field) != getattr(wanted, field)
            ]
            wrong += [f"{recorded.name} → {client}: {why}" for why in losses(given, reply, responder)]
    assert wrong == [], "\n".join([f"{len(wrong)} of {sum(seen.values())}", *wrong[:60]])
    assert all(seen[client] > (900 if ALL else 3) for client in CLIENTS)


def losses(given: Reply, sent: Reply, responder: Responder) -> Iterator[str]:
    """What the provider answered and the client was not sent, though no repair reports it."""
    kinds = {repair.kind for repair in responder.repairs}
    listed = "citations_as_text" in kinds
    written = without_source_list(sent.message.text) if listed else sent.message.text
    if given.message.text != written and not kinds & {
        "text_dropped",
        "blank_text",
        "reply_filled",
        "media_described",
    }:
        yield f"text {sent.message.text!r}, not {given.message.text!r}"[:300]
    before = [(call.name, call.arguments) for call in given.message.calls]
    after = [(call.name, call.arguments) for call in sent.message.calls]
    if before != after and not kinds & {"name_replaced", "arguments_wrapped"}:
        yield f"calls {after}, not {before}"[:300]
    if [call.native_id for call in sent.message.calls] != list(responder.ids):
        yield "ids"
    if given.usage != sent.usage:
        yield "usage"
    if given.finish != sent.finish and {given.finish, sent.finish} != {"stop", "tool_calls"}:
        yield f"finish {sent.finish}, not {given.finish}"
