"""What it costs to render, against the JSON encoding of the same data in the same run."""

from __future__ import annotations

import msgspec

from bench.histories import agent_like
from bench.measure import interleaved
from segue.conversation.blocks import Text
from segue.conversation.message import Message
from segue.dialects.targets import RULES
from segue.transcript.render import render

SIZES = (10, 100, 1_000, 10_000)
TARGETS = ("openai_chat", "anthropic", "gemini", "mistral", "kimi")


def run() -> None:
    encode = msgspec.json.Encoder().encode
    print("render of agent-like histories: × the msgspec.json.encode of the same conversation")
    print(f"{'messages':>9} {'floor µs/msg':>13}" + "".join(f"{name:>13}" for name in TARGETS))
    for size in SIZES:
        conversation = agent_like(size)
        subjects = {"floor": lambda conversation=conversation: encode(conversation)}
        for name in TARGETS:
            rules = RULES[name].at(provider="p", endpoint="e", model="m")
            subjects[name] = lambda rules=rules, conversation=conversation: render(conversation, None, rules)
        taken = interleaved(subjects, rounds=max(7, min(200, 20_000 // size)))
        floor = taken["floor"]
        ratios = "".join(f"{taken[name] / floor:>12.2f}×" for name in TARGETS)
        print(f"{size:>9} {floor / size / 1000:>13.2f}{ratios}")
    _appending()


def _appending() -> None:
    print("re-render after appending one turn to 10,000 messages: % of the full render")
    conversation = agent_like(10_001)
    turn = (Message("user", (Text("And now the tests, please."),)), *agent_like(6).messages[1:3])
    for name in TARGETS:
        rules = RULES[name].at(provider="p", endpoint="e", model="m")
        previous = render(conversation, None, rules)
        longer = conversation.append(Message("model", (Text("Done."),)), *(turn[:1]))
        taken = interleaved(
            {
                "full": lambda rules=rules, longer=longer: render(longer, None, rules),
                "appended": lambda rules=rules, longer=longer, previous=previous: render(longer, None, rules, previous=previous),
            },
            rounds=9,
        )
        print(f"  {name:<14}{100 * taken['appended'] / taken['full']:6.2f} %")
