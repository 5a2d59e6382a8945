"""Verified fakes, the other direction: what most recorded replies of OpenAI have, ours have too."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec
import pytest

from emulators.recordings import FOLDER
from segue.emulators.app import App
from segue.emulators.in_process import ask_now

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the recorded traffic is not beside this repository"
)

PATHS = ("/v1/chat/completions", "/v1/responses")
MOST = 0.6
# Who pays is said to some accounts only.
NOT_OURS = {".billing", ".billing.payer"}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
REQUESTS: dict[str, list[dict[str, Any]]] = {
    PATHS[0]: [
        {"messages": [{"role": "user", "content": "hi"}]},
        {
            "messages": [{"role": "user", "content": "hi"}],
            "tools": [{"type": "function", "function": {"name": "w", "parameters": SCHEMA}}],
        },
    ],
    PATHS[1]: [
        {"input": "hi"},
        {"input": "hi", "tools": [{"type": "function", "name": "w", "parameters": SCHEMA}]},
    ],
}


def keys(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{path}.{key}"
            yield from keys(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner, f"{path}[]")


def events(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        if line.startswith("data: {"):
            yield msgspec.json.decode(line.removeprefix("data: "))


@lru_cache(maxsize=1)
def recorded() -> dict[str, set[str]]:
    """By path and kind of event: the keys that most recorded replies have."""
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    amount: Counter[str] = Counter()
    for file in FOLDER.glob("openai__v1-*.json"):
        data = msgspec.json.decode(file.read_bytes())
        path = ((data.get("request") or {}).get("url") or "").removeprefix("https://api.openai.com")
        response = data.get("response") or {}
        if path not in PATHS or response.get("status") != 200:
            continue
        whole, text = response.get("json"), response.get("text") or ""
        replies = [(path, whole)] if whole else [(_kind(path, event), event) for event in events(text)]
        for kind, reply in replies:
            amount[kind] += 1
            seen[kind].update(set(keys(reply)))
    return {
        kind: {key for key, n in found.items() if n > MOST * amount[kind]} for kind, found in seen.items()
    }


def _kind(path: str, event: dict[str, Any]) -> str:
    return f"{path} {event.get('type', 'chunk')}"


def ours(path: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    app = App()
    for request in REQUESTS[path]:
        body = {"model": "gpt-4.1", **request}
        found[path].update(keys(ask_now(app, "POST", "/openai" + path, json=body).json()))
        options = {"stream_options": {"include_usage": True}} if path == PATHS[0] else {}
        streamed = ask_now(app, "POST", "/openai" + path, json={**body, "stream": True, **options})
        for event in events(streamed.body.decode()):
            found[_kind(path, event)].update(keys(event))
    return found


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.rule("CHAT-60", "RESP-60")
def test_our_replies_have_what_most_real_ones_have(path: str) -> None:
    for kind, said in ours(path).items():
        assert recorded().get(kind, set()) - said - NOT_OURS == set(), kind
