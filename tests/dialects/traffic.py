"""Recorded traffic of real providers as values, when the folder with it lies beside the repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "wire"


class Recording(Struct, frozen=True):
    """One request and its answer."""

    name: str
    url: str
    request: Any
    status: int
    stream: str
    body: bytes
    headers: dict[str, str]

    @property
    def refused(self) -> bool:
        return self.status >= 400


def recordings(*providers: str) -> list[Recording]:
    """Every recording of these providers; skips the test where there are none."""
    if not CORPUS.is_dir():
        pytest.skip("the recorded traffic is not beside this repository")
    found = [path for provider in providers for path in sorted(CORPUS.glob(f"{provider}__*.json"))]
    return [_read(path) for path in found]


def _read(path: Path) -> Recording:
    held = json.loads(path.read_text("utf-8"))
    request, response = held["request"] or {}, held["response"]
    body = response.get("text")
    if body is None:
        body = json.dumps(response["json"]) if "json" in response else ""
    if response["stream"] == "jsonl-of-sse-data":
        body = "".join(f"data: {line}\n\n" for line in body.splitlines() if line.strip())
    headers = {str(name).lower(): str(value) for name, value in (response.get("headers") or {}).items()}
    return Recording(
        path.name,
        request.get("url", ""),
        request.get("json"),
        response["status"] or 200,
        response["stream"] or "",
        body.encode(),
        headers,
    )
