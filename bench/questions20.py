"""Does a small model embarrass? Twenty plain questions, asked as a user of the embedded model does.

    python -m bench.questions20 [MODEL …]

Every question is the first of a chat. A reply is right if the answer stands in its beginning, and none of the wrong answers
that a small model likes to give.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Sequence

from segue.chat.chat import Chat
from segue.conversation.options import NO_OPTIONS, Options
from segue.providers.embedded.provider import EmbeddedProvider
from segue.routing.route import Route

QUESTIONS: tuple[tuple[str, str, str], ...] = (
    ("What is the capital of France?", r"\bParis\b", ""),
    ("What is 2 + 2?", r"(= ?|\bis |\bequals |^)\**(4|four)\b", r"\b16\b"),
    ("How many days are in a week?", r"\b(7|seven)\b", r"\b(5|five|12|24)\b"),
    ("What color is the sky on a clear day?", r"\bblue\b", ""),
    ("Who wrote Romeo and Juliet?", r"\bShakespeare\b", ""),
    ("What is the largest planet in our solar system?", r"\bJupiter\b", r"Neptune|Saturn"),
    ("What is the chemical formula of water?", r"H2O|H₂O", ""),
    ("What is the opposite of hot?", r"\bcold\b", r"lukewarm"),
    ("In which country is Tokyo?", r"\bJapan\b", ""),
    ("What is 10 minus 3?", r"\b(7|seven)\b", ""),
    ("How do you say hello in Spanish?", r"\bhola\b", r"Portuguese"),
    ("What language is mostly spoken in Brazil?", r"\bPortuguese\b", r"Bantu|Spanish"),
    ("How many legs does a spider have?", r"\b(8|eight)\b", r"\b(10|6|six|ten)\b"),
    ("What do bees make?", r"\bhoney\b", ""),
    ("What is the capital of Italy?", r"\bRome\b", ""),
    ("Which planet do we live on?", r"\bEarth\b", r"Proxima|Mars"),
    ("How many months are in a year?", r"\b(12|twelve)\b", ""),
    ("What is the plural of child?", r"\bchildren\b", ""),
    ("Which command lists files in a Linux shell?", r"\bls\b", r"http\.server"),
    ("Write a line of Python that prints hello.", r"print\(\s*[\"']hello", ""),
)
SECONDS = 60.0
BEGINNING = 200
"""Characters in which the answer has to stand."""


async def ask(model: str, options: Options) -> str:
    """How many of the twenty are right, and how long a reply took."""
    provider = EmbeddedProvider(model=model)
    right = 0
    worst = 0.0
    began = time.monotonic()
    for question, answer, wrong in QUESTIONS:
        chat = Chat(
            Route(provider=provider.name, model=model), providers={provider.name: provider}, options=options
        )
        asked = time.monotonic()
        async with chat:
            reply = (await chat.send(question)).text
        seconds = time.monotonic() - asked
        worst = max(worst, seconds)
        good = seconds < SECONDS and _holds(answer, reply) and not (wrong and _holds(wrong, reply))
        right += good
        print(f"  {'+' if good else '-'} {seconds:5.1f} s  {question} -> {reply[:160]!r}", flush=True)
    provider.close()
    mean = (time.monotonic() - began) / len(QUESTIONS)
    return f"{right} of {len(QUESTIONS)} right, {mean:.1f} s a reply, {worst:.1f} s the longest"


def _holds(pattern: str, reply: str) -> bool:
    return re.search(pattern, reply[:BEGINNING], re.IGNORECASE | re.MULTILINE) is not None


def run(models: Sequence[str] = ()) -> None:
    for model in models or [EmbeddedProvider().model]:
        print(f"{model}: {asyncio.run(ask(model, NO_OPTIONS))}", flush=True)


if __name__ == "__main__":
    run(sys.argv[1:])
