"""What all agents here share: one tool, and a history in a file, written before a tool runs and read on the next start."""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MODEL, PROMPT = sys.argv[1:3]
HISTORY = Path("history.json")
URL, KEY = os.environ["AGENT_URL"], os.environ["AGENT_KEY"]
DESCRIPTION = "Read a note, after so many seconds."
SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "seconds": {"type": "integer"}},
    "required": ["path"],
}
ROUNDS = 5


def read_note(path: str, seconds: int = 0) -> str:
    """Read a note, after so many seconds."""
    time.sleep(seconds)
    return Path(path).read_text()


def load() -> list[Any]:
    return json.loads(HISTORY.read_text()) if HISTORY.exists() else []


def save(history: list[Any]) -> None:
    HISTORY.write_text(json.dumps(history))


def run(ask: Callable[[list[Any]], str], history: list[Any]) -> None:
    """`ask` sends the history, adds the reply and the results of its calls to it, and returns the text if there were none."""
    for _ in range(ROUNDS):
        save(history)
        if text := ask(history):
            save(history)
            print(text)
            return
    print("the turn does not end")
