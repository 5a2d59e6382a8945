"""Recorded traffic with the real APIs: which recordings concern an emulator, and what it says to the same request."""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from segue.emulators import provider_paths
from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.in_process import ask_now
from segue.emulators.openai_responses import chain
from segue.emulators.rules import Context
from segue.emulators.signatures import digest

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parents[3] / "shared" / "corpus" / "wire"
HOSTS = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gemini",
    "api.mistral.ai": "mistral",
    "api.moonshot.ai": "kimi",
    "api.moonshot.cn": "kimi",
    "api.deepseek.com": "deepseek",
    "localhost:11434": "ollama",
    "127.0.0.1:11434": "ollama",
    "ollama.com": "ollama",
}
STRUCTURAL = (400, 404, 413, 422)
KEY = "sk-recorded"
HEADERS = {
    "authorization": f"Bearer {KEY}",
    "x-api-key": KEY,
    "x-goog-api-key": KEY,
    "content-type": "application/json",
    "anthropic-version": "2023-06-01",
}
# The recordings have lost their headers; uploaded files are accepted with this one only.
ACCEPTED_HEADERS = {"anthropic-beta": "files-api-2025-04-14"}
KEPT_HEADERS = ("anthropic-version", "anthropic-beta")
# Only the issuer can open a seal, and only who stored a response knows it: however genuine, to us they are foreign.
STATE_RULES = re.compile(r"ANT-5[4578]|GEM-23|RESP-4[56]|RESP-50|CNV-04|CCH-02|THR-16")


class Recording(Struct, frozen=True):
    name: str
    provider: str
    method: str
    url: str
    headers: dict[str, str]
    body: Any
    status: int
    answer: Any


def _read(path: Path) -> Recording | None:
    data = msgspec.json.decode(path.read_bytes())
    request, response = data.get("request"), data.get("response") or {}
    if not request or not isinstance(response.get("status"), int):
        return None
    url = urlsplit(request.get("url") or "")
    provider = HOSTS.get(url.netloc)
    body = request.get("json")
    if provider not in provider_paths.mounted() or not isinstance(body, dict | None):
        return None
    target = f"/{provider}{url.path}" + (f"?{url.query}" if url.query else "")
    method = request.get("method") or "POST"
    found = provider_paths.find(method, f"/{provider}{url.path}")
    if found is None or found.handler is None:
        return None
    sent = {name.lower(): str(value) for name, value in (request.get("headers") or {}).items()}
    headers = {
        **HEADERS,
        **(ACCEPTED_HEADERS if response["status"] < 300 else {}),
        **{name: sent[name] for name in KEPT_HEADERS if "REDACTED" not in sent.get(name, "REDACTED")},
    }
    return Recording(
        path.name, str(provider), method, target, headers, body, response["status"], _answer(response)
    )


def _answer(response: dict[str, Any]) -> Any:
    """The JSON of an answer, also where the client had asked for a stream and the recording kept it as text."""
    if response.get("json") is not None or not response.get("text"):
        return response.get("json")
    try:
        return msgspec.json.decode(response["text"])
    except msgspec.DecodeError:
        return None


@lru_cache(maxsize=1)
def recordings() -> tuple[Recording, ...]:
    found = (_read(path) for path in sorted(FOLDER.glob("*.json")))
    return tuple(recording for recording in found if recording is not None)


@lru_cache(maxsize=1)
def mismatches() -> dict[str, str]:
    """Recordings whose verdict we do not share, with the reason."""
    table = tomllib.loads(Path(__file__).with_name("mismatches.toml").read_text("utf-8"))
    return {name: group["reason"] for group in table["mismatch"] for name in group["recordings"]}


def resealed(value: Any) -> Any:
    """OpenAI's encrypted reasoning, sealed anew by our own key for the account of the test."""
    if isinstance(value, list):
        return [resealed(item) for item in value]
    if not isinstance(value, dict):
        return value
    inner = {key: resealed(item) for key, item in value.items()}
    if isinstance(inner.get("encrypted_content"), str):
        inner["encrypted_content"] = chain.issue("recorded", Context(account=digest(KEY)[:12]))
    return inner


def judged(recording: Recording, *, strict: bool) -> tuple[int, Any, str | None]:
    """Our status, our JSON (None for a stream) and the rule by which we refuse."""
    app = App(Emulator(strict=strict))
    _pull(recording, app)
    body = resealed(recording.body) if recording.provider == "openai" else recording.body
    answer = ask_now(app, recording.method, recording.url, json=body, headers=recording.headers)
    is_json = answer.headers.get("content-type", "").startswith("application/json")
    return answer.status, answer.json() if is_json and answer.body else None, app.emulator.log[-1].rule


def _pull(recording: Recording, app: App) -> None:
    """A recorded Ollama that answered had the model; ours has to fetch it first."""
    if recording.provider == "ollama" and recording.status != 404 and isinstance(recording.body, dict):
        ask_now(app, "POST", "/ollama/api/pull", json={"model": recording.body.get("model"), "stream": False})


def errors_in(value: Any) -> Iterator[str]:
    """The sentences of an error body, whichever envelope it has."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("message", "msg", "detail", "error") and isinstance(inner, str):
                yield inner
            else:
                yield from errors_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from errors_in(inner)


def plain(value: Any) -> list[str]:
    """Without ids and numbers, which differ from one occasion to the next."""
    sentences = [re.sub(r"\b[a-z]+_[A-Za-z0-9]{6,}\b", "ID", text) for text in errors_in(value)]
    return [re.sub(r"\d+", "0", text).strip() for text in sentences]


def kinds(value: Any) -> list[Any]:
    """The type of an error, whichever envelope it has."""
    error = value.get("error", value) if isinstance(value, dict) else value
    if isinstance(error, list) and error:
        error = error[0].get("error", error[0])
    return [error.get(key) for key in ("type", "status")] if isinstance(error, dict) else []
