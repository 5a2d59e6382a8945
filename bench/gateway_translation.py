"""What the gateway itself does with a request or a chunk, in this process, against the floor of its JSON."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TypeAlias

import msgspec

from bench.gateway_requests import REPLY_WORDS, AgentSession
from bench.gateway_upstream import Chat, Messages
from bench.measure import interleaved
from segue.config.schema import Config, GatewaySettings
from segue.conversation.blocks import Origin
from segue.dialects.registry import DIALECTS
from segue.dialects.replies.translation import ReplyTranslation
from segue.gateway.conversations.reader import TurnReader
from segue.gateway.doors.paths import Doors
from segue.gateway.exchanges.compaction import ClientCompaction
from segue.gateway.exchanges.members import Members
from segue.gateway.memory.installation_key import InstallationKey
from segue.gateway.memory.memory import Memory
from segue.gateway.memory.sqlite_store import SQLiteMemoryStore
from segue.gateway.names import ModelNames
from segue.gateway.requests.web import WebRequest
from segue.gateway.server.process import spare_collections
from segue.gateway.stored_objects.cached_contents import HeldContents
from segue.gateway.stored_objects.conversation_objects import ConversationObjects
from segue.gateway.stored_objects.reply_archive import ReplyArchive
from segue.providers.config import ProviderConfig
from segue.providers.credentials.keys import Secret
from segue.providers.registry import default_registry
from segue.routing.route import parse_route, provider_of
from segue.transcript.client_wire import ClientRequest
from segue.transcript.respond import Responder

Row: TypeAlias = tuple[str, float, str, float | None]
ROUTE = "openai/gpt-4.1"


class Translation:
    """Requests as the gateway takes them in and plans them, without any HTTP."""

    def __init__(self, route: str = ROUTE, path: str = "/v1/messages") -> None:
        config = Config(gateway=GatewaySettings(models={"*": route}))
        nowhere = ProviderConfig(base_url="http://127.0.0.1:9/v1", api_key=Secret("none"))
        self._providers = default_registry(
            dict.fromkeys(("anthropic", "mistral", "openai"), nowhere),
            environ={},
            keyring=False,
        )
        memory = Memory(SQLiteMemoryStore(), InstallationKey(b"k" * 32))
        names = ModelNames(config, self._providers)
        self._members = Members(names, self._providers, config.gateway, memory)
        archive, compactor = ReplyArchive(memory), ClientCompaction(self._members, self._providers, memory)
        plans, limits = self._members.plans, config.gateway.limits
        objects = ConversationObjects(memory, archive, limits.reply_timeout)
        contents = HeldContents(memory, config.gateway.memory.days)
        self._reader = TurnReader(names, memory, plans, archive, objects, compactor, contents, limits)
        self._route = parse_route(route)
        self._path = path
        self._doors = Doors()

    async def __call__(self, body: bytes, headers: dict[str, str]) -> bytes:
        door = self._doors.find("POST", self._path, headers)
        assert door is not None
        request = WebRequest(method="POST", path=self._path, headers=headers, body=body)
        turn = await self._reader.read_chat(door, request, "bench")
        preview = provider_of(self._route, self._providers).capabilities.preview
        assert preview is not None
        return preview(self._members.request(turn, self._route)).body


def history_rows(size: int = 400) -> list[Row]:
    """A long conversation from nothing, and its next turn."""
    spare_collections()  # as the gateway does
    sessions = [AgentSession(size=size) for _ in range(8)]
    firsts = [(session.body(), session.headers) for session in sessions]
    for session in sessions:
        session.answered(f"toolu_{session.number:022x}")
    seconds = [(session.body(), session.headers) for session in sessions]
    translation = Translation()
    at = iter(range(10_000))

    def first() -> None:
        result_of(translation(*firsts[next(at) % len(firsts)]))

    strangers = iter([Translation() for _ in range(8)])

    def fresh() -> None:
        result_of(next(strangers)(*firsts[0]))

    taken = interleaved({"floor": lambda: floor(firsts[0][0]), "from nothing": fresh}, rounds=7)
    rows: list[Row] = [
        (
            f"{size} messages from nothing, translation CPU",
            taken["from nothing"] / taken["floor"],
            "× floor",
            2.0,
        )
    ]
    for _ in firsts:
        first()
    turns = iter(seconds)
    known = interleaved(
        {
            "floor": lambda: floor(seconds[0][0]),
            "next": lambda: result_of(translation(*next(turns))),
        },
        rounds=len(seconds) - 1,
    )
    rows.append(
        (f"{size} messages, next turn, translation CPU", known["next"] / known["floor"], "× floor", 0.2)
    )
    return rows


def result_of(translated: Coroutine[object, None, bytes]) -> bytes:
    """A memory in this process never waits, so that a loop, which a gateway has anyway, is not needed, nor measured."""
    try:
        translated.send(None)
    except StopIteration as done:
        return bytes(done.value)
    raise RuntimeError("the translation waited for something")


def floor(body: bytes) -> bytes:
    return msgspec.json.encode(msgspec.json.decode(body))


def chunk_rows(chunks: int = 1_000) -> list[Row]:
    """A chunk of a stream on its way through, against parsing it."""
    rows: list[Row] = []
    for provider, client, reply in (
        ("openai_chat", "anthropic", Chat()),
        ("anthropic", "openai_chat", Messages()),
    ):
        frames = [reply.text(f" word{number % REPLY_WORDS}") for number in range(chunks)]
        begin, end = b"".join(reply.begin()), b"".join(reply.end())
        parsed = [frame.partition(b"data: ")[2] for frame in frames]
        taken = interleaved(
            {
                "floor": lambda parsed=parsed: [msgspec.json.decode(chunk) for chunk in parsed],  # type: ignore[misc]
                "ours": lambda args=(provider, client, [begin, *frames, end]): _translated(*args),  # type: ignore[misc]
            },
            rounds=15,
        )
        name = f"SSE chunk, {provider} → {client}, in process"
        rows.append((name, taken["ours"] / taken["floor"], "× parsing it", None))
        rows.append((f"  {provider} → {client}", taken["ours"] / chunks / 1000, "µs", 3.5))
    return rows


def _translated(provider: str, client: str, portions: list[bytes]) -> bytes:
    decoder, encoder = DIALECTS[provider].new_decoder(), DIALECTS[client].new_encoder("model")
    responder = Responder(ClientRequest(wire=DIALECTS[client].client, nonce="one"), Origin(provider))
    decode, write = decoder.feed, ReplyTranslation(responder, encoder).feed
    return b"".join([write(decode(portion)) for portion in portions])
