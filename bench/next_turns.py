"""The next turn of a known conversation on each wire: read and planned for another wire, in this process, without HTTP."""

from __future__ import annotations

import gc
import re
from statistics import median
from time import process_time_ns

import msgspec
from msgspec import structs

from bench.gateway_requests import AgentSession
from bench.gateway_translation import Translation, result_of
from bench.measure import keep_memory
from segue.conversation.blocks import Origin
from segue.conversation.options import Options
from segue.dialects.card import UNKNOWN
from segue.dialects.plan import plan
from segue.dialects.registry import DIALECTS
from segue.gateway.server.process import spare_collections
from segue.transcript.adopt import adopt

PATHS = {
    "anthropic": "/v1/messages",
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "gemini": "/v1beta/models/m:streamGenerateContent",
}
ROUNDS = 9
_SHORT_ID = re.compile(rb'"call_c([0-9]+)"')


def _route(wire: str) -> str:
    return "mistral/mistral-large-latest" if wire == "anthropic" else "anthropic/claude-sonnet-4-5"


def bodies(wire: str, size: int) -> list[bytes]:
    """Three requests of one conversation, one after another."""
    session, made = AgentSession(size=size), list[bytes]()
    for turn in range(3):
        made.append(_written(wire, session.body()))
        session.answered(f"toolu_{session.number:010x}{turn:012d}")
    return made


def _written(wire: str, body: bytes) -> bytes:
    if wire == "anthropic":
        return body
    decoded = DIALECTS["anthropic"].decode_request(msgspec.json.decode(body))
    adopted = adopt(decoded.messages, dialect="anthropic").conversation
    said = tuple([message for message in adopted.messages if not message.instruction])
    lasting = decoded.system.partition("\n\n")[2]
    options = Options(model="m", stream=True, extra={"store": False} if wire == "openai_responses" else None)
    conversation = structs.replace(adopted, messages=said, system=lasting)
    target = Origin(wire, model="m")
    body = plan(conversation, None, target=target, card=UNKNOWN, tools=decoded.tools, options=options).body
    # OpenAI's ids are as long as that, and nobody else's call has the same; Gemini's clients mostly have none.
    return body if wire == "gemini" else _SHORT_ID.sub(lambda found: b'"call_%024d"' % int(found[1]), body)


def _taken(size: int) -> dict[str, float]:
    """Nanoseconds of the third request, by wire."""
    translations = {wire: Translation(_route(wire), path) for wire, path in PATHS.items()}
    asked = {wire: [bodies(wire, size) for _ in range(ROUNDS)] for wire in PATHS}
    for wire, translate in translations.items():
        for number, known in enumerate(asked[wire]):
            for body in known[:2]:
                result_of(translate(body, {"x-segue-session": str(number)}))
    gc.collect()
    taken: dict[str, list[int]] = {wire: [] for wire in PATHS}
    for number in range(ROUNDS):
        for wire, translate in translations.items():
            start = process_time_ns()
            result_of(translate(asked[wire][number][2], {"x-segue-session": str(number)}))
            taken[wire].append(process_time_ns() - start)
    return {wire: median(times) for wire, times in taken.items()}


def run() -> None:
    spare_collections()  # as the gateway does
    keep_memory()
    for size in (34, 100, 400):
        taken = _taken(size)
        for wire, nanoseconds in taken.items():
            ratio = nanoseconds / taken["anthropic"]
            print(f"next turn, {size} messages, {wire}: {nanoseconds / 1000:.0f} µs, {ratio:.2f} × Messages")
