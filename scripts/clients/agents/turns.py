"""What the agents of several turns share: each line of the standard input begins a conversation or is a prompt in it, as JSON.

Such an agent lives as long as its conversation, so that its SDK holds what it holds in a program: ids, a thread, a connection.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

URL, KEY = os.environ["AGENT_URL"], os.environ["AGENT_KEY"]
DESCRIPTION = "Read a note."
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
DOCUMENT = "The note is a file. Its words are a secret of otters, and only the tool can read them. " * 400
"""Long enough for every provider that keeps documents."""

Take = Callable[[str, list[int]], str]
"""Answers a prompt, and adds the tokens of context of each reply, cached ones included."""


def read_note(path: str) -> str:
    """Read a note."""
    return Path(path).read_text()


def call(arguments: str | dict) -> str:
    return read_note(**(json.loads(arguments) if isinstance(arguments, str) else arguments))


def serve(begin: Callable[[str, str], Take]) -> None:
    """`begin` makes a conversation with a model, and keeps it in the way that is asked for."""
    take: Take | None = None
    for line in sys.stdin:
        asked, tokens, text = json.loads(line), list[int](), ""
        try:
            if "keeps" in asked:
                take = begin(asked["model"], asked["keeps"])
            elif take is not None:
                text = take(asked["prompt"], tokens)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
        print(json.dumps({"text": text, "tokens": tokens}), flush=True)
