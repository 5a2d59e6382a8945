"""Recorded answers of the real APIs, where the folder that holds them is at hand."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from segue.conversation.events import Reply

FOLDER = Path(__file__).parents[3] / "shared" / "corpus" / "wire"
needs_recordings = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no recordings at {FOLDER.name}")


@lru_cache
def recordings(endpoint: str, provider: str = "") -> dict[str, dict[str, Any]]:
    """All recordings whose endpoint contains a word, by file name without its ending."""
    return {
        path.stem: msgspec.json.decode(path.read_bytes())
        for path in sorted(FOLDER.glob(f"{provider}*__*{endpoint}*__*.json"))
        if endpoint in path.stem.split("__")[1]
    }


def body_of(answer: dict[str, Any]) -> bytes:
    if "json" in answer:
        return msgspec.json.encode(answer["json"])
    text = answer.get("text") or ""
    if answer.get("stream") == "jsonl-of-sse-data":
        text = "".join(f"data: {line}\n\n" for line in text.splitlines())
    return str(text).encode()


def headers_of(answer: dict[str, Any]) -> dict[str, str]:
    return {name.lower(): str(value) for name, value in (answer.get("headers") or {}).items()}


def without_price_facts(reply: Reply) -> Reply:
    """A reply with its counts alone: how it was made and charged is between its provider and us, and no client is told."""
    usage = structs.replace(
        reply.usage, web_searches=None, file_searches=None, other_tool_runs=None, tier=None, charged=None
    )
    return structs.replace(reply, usage=usage)
