"""What it costs to render, against the JSON encoding of the same data in the same run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from bench.histories import agent_like
from bench.measure import interleaved
from segue.conversation.blocks import Text
from segue.conversation.message import Message
from segue.dialects.registry import DIALECTS
from segue.transcript.render import render
from segue.transcript.rules import Rules

SIZES = (10, 100, 1_000, 10_000)
TARGETS = ("openai_chat", "anthropic", "gemini", "mistral", "kimi")


def run() -> None:
    encode = msgspec.json.Encoder().encode
    print("render of agent-like histories: × the msgspec.json.encode of the same conversation")
    print(f"{'messages':>9} {'floor µs/msg':>13}" + "".join(f"{name:>13}" for name in TARGETS))
    for size in SIZES:
        conversation = agent_like(size)
        subjects: dict[str, Callable[[], object]] = {"floor": partial(encode, conversation)}
        for name in TARGETS:
            subjects[name] = partial(render, conversation, None, _at_home(name))
        taken = interleaved(subjects, rounds=max(7, min(200, 20_000 // size)))
        floor = taken["floor"]
        ratios = "".join(f"{taken[name] / floor:>12.2f}×" for name in TARGETS)
        print(f"{size:>9} {floor / size / 1000:>13.2f}{ratios}")
    _appending()


def _appending() -> None:
    print("re-render after appending one turn to 10,000 messages: % of the full render")
    conversation = agent_like(10_001)
    for name in TARGETS:
        rules = _at_home(name)
        previous = render(conversation, None, rules)
        longer = conversation.append(
            Message("model", (Text("Done."),)), Message("user", (Text("And the tests?"),))
        )
        taken = interleaved(
            {
                "full": partial(render, longer, None, rules),
                "appended": partial(render, longer, None, rules, previous=previous),
            },
            rounds=15,
        )
        print(f"  {name:<14}{100 * taken['appended'] / taken['full']:6.2f} %")


def _at_home(name: str) -> Rules:
    return DIALECTS[name].rules.at(provider="p", endpoint="e", model="m")
