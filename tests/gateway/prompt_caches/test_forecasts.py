"""What is expected of a cache is what the provider reports, and a loss has its true cause: in random sessions against the emulators,
which keep prompts by rules of their own."""

from __future__ import annotations

import copy
import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import msgspec
import pytest

from segue.conversation.events import UsageReported
from segue.conversation.usage import Usage
from segue.dialects.registry import DIALECTS
from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.in_process import ask
from segue.emulators.model.model_reply import Prompt, Reply, Say
from segue.gateway.prompt_caches.facts import all_facts, cache_facts
from segue.gateway.prompt_caches.forecasts import CacheForecast, CacheOutcome, PromptCaches
from segue.providers.models.prices import PriceBook

SESSIONS: Final = int(os.environ.get("SESSIONS", "40"))
"""200 and more with `make cache-sessions`."""
SEED: Final = int(os.environ.get("SEED", "32"))
KEYS: Final = {
    "authorization": "Bearer sk-emulated",
    "x-api-key": "sk-emulated",
    "x-goog-api-key": "sk-emulated",
} | {
    "content-type": "application/json",
    "anthropic-version": "2023-06-01",
}


class Parrot:
    """Answers at some length."""

    def reply(self, prompt: Prompt) -> Reply:
        return Reply(pieces=(Say(f"You said {prompt.text[:40]}. " * 20),))

    def reset(self) -> None:
        """Nothing is remembered."""


class Wire:
    """A client of one wire, which holds its own history."""

    def __init__(self, name: str, provider: str, model: str, path: str) -> None:
        self.name, self.provider, self.model, self.path = name, provider, model, path

    def body(self, session: Session) -> dict[str, Any]:
        raise NotImplementedError

    def answered(self, session: Session, answer: dict[str, Any]) -> None:
        raise NotImplementedError


class Session:
    """One conversation as its client knows it: system, tools, and texts in turn."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.system = words(chance, 3000)
        self.tools = [words(chance, 60) for _ in range(chance.randint(2, 5))]
        self.said: list[tuple[str, str]] = []
        self.marked = True
        self.hour = False
        self.choice = "auto"


def words(chance: random.Random, number: int) -> str:
    return " ".join(chance.choice(_WORDS) for _ in range(number))


_WORDS: Final = [
    f"{first}{last}" for first in ("led", "ref", "cre", "in") for last in ("ger", "und", "dit", "voice")
]


class Messages(Wire):
    def body(self, session: Session) -> dict[str, Any]:
        mark: dict[str, Any] = {"type": "ephemeral", **({"ttl": "1h"} if session.hour else {})}
        marks = {"cache_control": mark} if session.marked else {}
        messages: list[Any] = [
            {"role": role, "content": [{"type": "text", "text": text}]} for role, text in session.said
        ]
        messages[-1]["content"][-1] |= copy.deepcopy(marks)
        return {
            "model": self.model,
            "max_tokens": 4000,
            "system": [{"type": "text", "text": session.system, **copy.deepcopy(marks)}],
            "tools": [
                {"name": f"tool_{number}", "description": text, "input_schema": {"type": "object"}}
                for number, text in enumerate(session.tools)
            ],
            "tool_choice": {"type": session.choice},
            "messages": messages,
        }

    def answered(self, session: Session, answer: dict[str, Any]) -> None:
        session.said.append(("assistant", answer["content"][0]["text"]))


class Chat(Wire):
    def body(self, session: Session) -> dict[str, Any]:
        history = [{"role": role, "content": text} for role, text in session.said]
        return {
            "model": self.model,
            "messages": [{"role": "system", "content": session.system}, *history],
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": f"tool_{number}",
                        "description": text,
                        "parameters": {"type": "object"},
                    },
                }
                for number, text in enumerate(session.tools)
            ],
            "tool_choice": "none",
        }

    def answered(self, session: Session, answer: dict[str, Any]) -> None:
        session.said.append(("assistant", answer["choices"][0]["message"]["content"]))


class Responses(Wire):
    def body(self, session: Session) -> dict[str, Any]:
        return {
            "model": self.model,
            "instructions": session.system,
            "input": [{"role": role, "content": text} for role, text in session.said],
            "tools": [
                {
                    "type": "function",
                    "name": f"tool_{number}",
                    "description": text,
                    "parameters": {"type": "object"},
                }
                for number, text in enumerate(session.tools)
            ],
            "tool_choice": "none",
            "store": False,
        }

    def answered(self, session: Session, answer: dict[str, Any]) -> None:
        texts = [part["text"] for item in answer["output"] for part in item.get("content", ())]
        session.said.append(("assistant", "".join(texts)))


class Contents(Wire):
    def body(self, session: Session) -> dict[str, Any]:
        roles = {"user": "user", "assistant": "model"}
        return {
            "systemInstruction": {"parts": [{"text": session.system}]},
            "contents": [{"role": roles[role], "parts": [{"text": text}]} for role, text in session.said],
            "tools": [
                {
                    "functionDeclarations": [
                        {"name": f"tool_{number}", "description": text}
                        for number, text in enumerate(session.tools)
                    ]
                }
            ],
            "toolConfig": {"functionCallingConfig": {"mode": "NONE"}},
        }

    def answered(self, session: Session, answer: dict[str, Any]) -> None:
        parts = answer["candidates"][0]["content"]["parts"]
        session.said.append(("assistant", "".join(part.get("text", "") for part in parts)))


WIRES: Final = (
    Messages("anthropic", "anthropic", "claude-opus-4-7", "/anthropic/v1/messages"),
    Chat("openai_chat", "openai", "gpt-4.1", "/openai/v1/chat/completions"),
    Responses("openai_responses", "openai", "gpt-5.5", "/openai/v1/responses"),
    Contents(
        "gemini", "gemini", "gemini-3.5-flash", "/gemini/v1beta/models/gemini-3.5-flash:generateContent"
    ),
    Chat("mistral", "mistral", "mistral-large-latest", "/mistral/v1/chat/completions"),
    Chat("deepseek", "deepseek", "deepseek-chat", "/deepseek/chat/completions"),
)


class Stage:
    """A provider and the forecasts, with one clock."""

    def __init__(self) -> None:
        self.now = 1_770_000_000.0
        self.emulator = Emulator(strict=True, responder=Parrot(), clock=lambda: self.now)
        self.app = App(self.emulator)
        self.caches = PromptCaches(clock=lambda: self.now)
        self.prices = PriceBook({})
        self.last_route = ""

    async def turn(self, wire: Wire, session: Session, text: str) -> tuple[CacheForecast, CacheOutcome]:
        session.said.append(("user", text))
        body = msgspec.json.encode(wire.body(session))
        route = f"{wire.provider}/{wire.model}"
        forecast = self.caches.forecast("c", route, wire.name, body, last_route=self.last_route)
        assert forecast is not None
        answer = await ask(self.app, "POST", wire.path, body=body, headers=KEYS)
        assert answer.status == 200, answer.body
        wire.answered(session, answer.json())
        self.last_route = route
        return forecast, self.caches.ended(forecast, _usage(wire.name, answer.body), self.prices)


def _usage(dialect: str, body: bytes) -> Usage:
    events = DIALECTS[dialect].decode_reply(body)
    return next(event.usage for event in events if isinstance(event, UsageReported))


# What may happen between two turns, and the cause that it is


def _nothing(stage: Stage, session: Session) -> str:
    stage.now += session.chance.uniform(1, 100)
    return "none"


def _system(stage: Stage, session: Session) -> str:
    at = session.chance.randrange(len(session.system))
    session.system = session.system[:at] + "CHANGED" + session.system[at:]
    return "system"


def _tools(stage: Stage, session: Session) -> str:
    session.tools.append(words(session.chance, 50))
    return "tools"


def _history(stage: Stage, session: Session) -> str:
    at = session.chance.randrange(max(len(session.said) - 2, 1))
    role, text = session.said[at]
    session.said[at] = role, f"EDITED {text}"
    return "history"


def _waiting(stage: Stage, session: Session) -> str:
    stage.now += 4000
    return "time to live"


def _unmarked(stage: Stage, session: Session) -> str:
    session.marked = False
    return "marks"


def _option(stage: Stage, session: Session) -> str:
    session.choice = "none" if session.choice == "auto" else "auto"
    return "options"


_STEPS: Final[dict[str, tuple[Callable[[Stage, Session], str], frozenset[str]]]] = {
    "nothing": (_nothing, frozenset(wire.name for wire in WIRES)),
    "system": (_system, frozenset(wire.name for wire in WIRES)),
    "tools": (_tools, frozenset(wire.name for wire in WIRES)),
    "history": (_history, frozenset(wire.name for wire in WIRES)),
    "waiting": (_waiting, frozenset({"anthropic", "openai_chat", "openai_responses"})),
    "marks": (_unmarked, frozenset({"anthropic"})),
    "option": (_option, frozenset({"anthropic"})),
}


def _agree(wire: Wire, session: Session, expected: int, read: int) -> bool:
    """Within one block. A prompt that is one block longer than the shortest that is kept may as well be a token too short."""
    nearly = _tolerance(wire, session)
    least = cache_facts(wire.name, wire.model).minimum
    return abs(expected - read) <= nearly or (0 in (expected, read) and expected + read < least + nearly)


def _tolerance(wire: Wire, session: Session) -> int:
    """One block. Where a provider keeps whole parts, or what is marked: so much as rounding makes of each part, for the provider
    counts brackets that are not known here."""
    facts = cache_facts(wire.name, wire.model)
    if facts.block > 1:
        return facts.block
    return 4 * (1 + len(session.said))


@pytest.mark.anyio
@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
async def test_what_is_expected_is_what_the_provider_reports(wire: Wire) -> None:
    chance = random.Random(f"{SEED} {wire.name}")
    seen: Counter[str] = Counter()
    for _ in range(max(SESSIONS // len(WIRES), 2)):
        stage, session = Stage(), Session(random.Random(chance.random()))
        for turn in range(session.chance.randint(3, 7)):
            names = [name for name, (_, wires) in _STEPS.items() if wire.name in wires]
            name = "nothing" if turn < 2 or session.chance.random() < 0.6 else session.chance.choice(names)
            planted = _STEPS[name][0](stage, session) if turn else "first request"
            forecast, outcome = await stage.turn(
                wire, session, words(session.chance, session.chance.randint(5, 400))
            )
            where = f"{wire.name} turn {turn} after {name}: {outcome}"
            assert outcome.read is not None, where
            assert _agree(wire, session, forecast.expected, outcome.read), where
            if outcome.lost:
                seen[planted] += 1
                assert outcome.cause == planted, where
            session.marked = True
    assert seen, "no session lost anything"


@pytest.mark.anyio
@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
@pytest.mark.parametrize("name", [name for name in _STEPS if name != "nothing"])
async def test_a_planted_loss_has_its_cause(wire: Wire, name: str) -> None:
    plant, wires = _STEPS[name]
    if wire.name not in wires:
        pytest.skip(f"{wire.name} has no {name}")
    stage, session = Stage(), Session(random.Random(f"{SEED} {name}"))
    for _ in range(3):
        _, before = await stage.turn(wire, session, words(session.chance, 300))
    assert not before.lost
    planted = plant(stage, session)
    _, outcome = await stage.turn(wire, session, words(session.chance, 300))
    assert (outcome.cause, bool(outcome.lost), bool(outcome.said)) == (planted, True, True)
    assert outcome.dollars is not None and outcome.dollars > 0
    if planted in ("tools", "system", "history"):
        assert outcome.first_byte is not None and 0 <= outcome.first_byte < outcome.total_bytes
        assert outcome.place


@pytest.mark.anyio
async def test_another_model_begins_cold() -> None:
    stage, session = Stage(), Session(random.Random(SEED))
    messages, chat = WIRES[0], WIRES[1]
    for _ in range(2):
        await stage.turn(messages, session, words(session.chance, 300))
    forecast, outcome = await stage.turn(chat, session, words(session.chance, 300))
    assert forecast.expected == 0
    assert (outcome.cause, outcome.read) == ("model", 0)
    assert outcome.lost > 1000 and outcome.dollars is not None and outcome.dollars > 0
    _, back = await stage.turn(messages, session, words(session.chance, 300))
    assert (back.cause, back.lost) == ("none", 0), "its own cache is still warm"
    assert (back.read or 0) > 1000


@pytest.mark.anyio
async def test_an_hour_that_is_asked_for_is_kept() -> None:
    stage, session, wire = Stage(), Session(random.Random(SEED)), WIRES[0]
    session.hour = True
    await stage.turn(wire, session, words(session.chance, 300))
    stage.now += 1800
    forecast, outcome = await stage.turn(wire, session, words(session.chance, 300))
    assert outcome.read == forecast.expected > 1000
    assert not outcome.lost


@pytest.mark.anyio
async def test_a_mark_that_stands_too_far_behind_finds_nothing() -> None:
    stage, session, wire = Stage(), Session(random.Random(SEED)), WIRES[0]
    await stage.turn(wire, session, words(session.chance, 2000))
    for _ in range(12):
        session.said += [("user", words(session.chance, 20)), ("assistant", words(session.chance, 20))]
    forecast, outcome = await stage.turn(wire, session, words(session.chance, 30))
    assert outcome.cause == "marks" and "20 blocks" in outcome.said
    assert abs(forecast.expected - (outcome.read or 0)) <= 30


def test_the_providers_own_reason_is_named() -> None:
    caches, body = PromptCaches(), b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
    for usage in (
        Usage(9000, 10, 0, 9000),
        Usage(9100, 10, 0, 9100, cache_miss="previous_message_not_found"),
    ):
        forecast = caches.forecast("c", "anthropic/claude-sonnet-5", "anthropic", body)
        assert forecast is not None
        outcome = caches.ended(forecast, usage)
    assert outcome.reason == "previous_message_not_found"
    assert "the provider says: previous_message_not_found" in outcome.said


def test_an_answer_of_the_messages_wire_says_why_its_cache_was_not_read() -> None:
    answer = {
        "type": "message",
        "content": [{"type": "text", "text": "hi"}],
        "usage": {"input_tokens": 5, "output_tokens": 5},
        "diagnostics": {"cache_miss_reason": {"type": "tools_changed"}},
    }
    assert _usage("anthropic", msgspec.json.encode(answer)).cache_miss == "tools_changed"
    answer["diagnostics"] = {"cache_miss_reason": {"type": "<b>Bad words</b>"}}
    assert _usage("anthropic", msgspec.json.encode(answer)).cache_miss is None


def test_a_provider_that_counts_nothing_has_no_figures() -> None:
    caches = PromptCaches()
    forecast = caches.forecast("c", "openai/gpt-5.5", "openai_chat", b'{"messages":[]}')
    assert forecast is not None
    assert caches.ended(forecast, Usage(5000, 10)).read is None
    assert caches.forecast("c", "ollama/llama", "ollama", b"{}") is None


def test_every_fact_says_how_sure_it_is_and_where_it_was_read() -> None:
    assert all(one.source and one.dialect in DIALECTS for one in all_facts())


def test_a_body_that_is_no_json_is_not_compared() -> None:
    caches = PromptCaches()
    for body in (b"[1,2", b"\xff\xfe{", b"{" * 100_000):
        for _ in range(2):
            forecast = caches.forecast("c", "openai/gpt-5.5", "openai_chat", body)
            assert forecast is not None
            caches.ended(forecast, Usage(5000, 10, 0))
