"""Requests as real clients sent them and real providers took them, with the wire each came on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

CORPUS: Final = Path(__file__).parents[2].parent / "shared" / "corpus"
_IN_PATH: Final = (
    ("/messages", "anthropic"),
    ("/responses", "openai_responses"),
    ("enerateContent", "gemini"),
    ("/api/chat", "ollama"),
)
_CHAT: Final = (
    (("/mistral", "mistral.ai"), "mistral"),
    (("/deepseek", "deepseek.com"), "deepseek"),
    (("/kimi", "moonshot"), "kimi"),
    (("/ollama/v1", ":11434/v1"), "ollama_v1"),
    (("groq.com",), "groq"),
    (("x.ai",), "xai"),
    (("openrouter",), "openrouter"),
    (("openai",), "openai_chat"),
)
_MODEL = re.compile(r"models/([^:/?]+):")


class WireRequest(Struct, frozen=True):
    """A request body, and where it was sent."""

    name: str
    dialect: str
    body: dict[str, Any]

    def __repr__(self) -> str:
        return self.name


def client_requests() -> Iterator[WireRequest]:
    """Of agents and frameworks."""
    for path in sorted((CORPUS / "clients").glob("*/*.json")):
        held = json.loads(path.read_bytes())
        yield from _request(f"{path.parent.name}/{path.stem}", held["path"], held["body"])


def accepted_requests(*, one_in: int = 1) -> Iterator[WireRequest]:
    """Recorded, and answered by the provider with a reply."""
    for path in sorted((CORPUS / "wire").glob("*.json"))[::one_in]:
        held = json.loads(path.read_bytes())
        asked, status = held.get("request") or {}, (held.get("response") or {}).get("status")
        if status is not None and 200 <= status < 300:
            yield from _request(path.stem, asked.get("url") or "", asked.get("json"))


def _request(name: str, address: str, body: Any) -> Iterator[WireRequest]:
    dialect = _dialect_of(address)
    if not dialect or not isinstance(body, dict) or "count_tokens" in address or "embed" in address:
        return
    field = {"gemini": "contents", "openai_responses": "input"}.get(dialect, "messages")
    if not isinstance(body.get(field), (list, str, dict)):
        return
    named = _MODEL.search(address)
    if named and "model" not in body:
        body = {**body, "model": named[1]}
    yield WireRequest(name, dialect, body)


def _dialect_of(address: str) -> str:
    for mark, dialect in _IN_PATH:
        if mark in address:
            return dialect
    if "chat/completions" not in address:
        return ""
    return next(
        (dialect for marks, dialect in _CHAT if any(mark in address for mark in marks)), "openai_compatible"
    )
