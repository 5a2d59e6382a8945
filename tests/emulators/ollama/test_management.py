"""Models are listed, shown, pulled, deleted and asked for embeddings."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from segue.emulators.app import App
from segue.emulators.in_process import EmulatorResponse, ask_now


def ask(app: App, method: str, path: str, **body: Any) -> EmulatorResponse:
    return ask_now(app, method, f"/ollama{path}", json=body or None)


def names(app: App) -> list[str]:
    return [model["name"] for model in ask(app, "GET", "/api/tags").json()["models"]]


def test_the_server_is_running() -> None:
    answer = ask(App(), "GET", "/")
    assert (answer.status, answer.body) == (200, b"Ollama is running")
    assert ask(App(), "GET", "/api/version").json()["version"]


def test_tags_tell_size_digest_and_details() -> None:
    models = ask(App(), "GET", "/api/tags").json()["models"]
    one = next(model for model in models if model["name"] == "qwen3:8b")
    assert one["details"]["family"] == "qwen3"
    assert (len(one["digest"]), one["size"] > 0) == (64, True)


def test_a_model_shows_its_window_and_what_it_can_do() -> None:
    shown = ask(App(), "POST", "/api/show", model="qwen3").json()
    architecture = shown["model_info"]["general.architecture"]
    assert shown["model_info"][f"{architecture}.context_length"] == 40_960
    assert shown["capabilities"] == ["completion", "tools", "thinking"]


@pytest.mark.rule("OLL-11")
def test_an_unknown_model_is_not_shown_under_either_word() -> None:
    answer = ask(App(), "POST", "/api/show", name="llama9:3b")
    assert (answer.status, answer.json()) == (404, {"error": "model 'llama9:3b' not found"})
    assert ask(App(), "POST", "/api/show", verbose=True).json() == {"error": "model is required"}


def test_a_pull_tells_its_progress_and_ends_in_success() -> None:
    app = App()
    assert "llama3.1:latest" not in names(app)
    answer = ask(app, "POST", "/api/pull", model="llama3.1")
    assert answer.headers["content-type"] == "application/x-ndjson"
    lines = [msgspec.json.decode(line) for line in answer.body.splitlines()]
    statuses = list(dict.fromkeys(line["status"] for line in lines))
    assert statuses[0] == "pulling manifest"
    assert statuses[-3:] == ["verifying sha256 digest", "writing manifest", "success"]
    layers = [line for line in lines if "digest" in line]
    assert all(line.get("completed", 0) <= line["total"] for line in layers)
    assert layers[0]["status"] == f"pulling {layers[0]['digest'].removeprefix('sha256:')[:12]}"
    assert "llama3.1:latest" in names(app)


@pytest.mark.rule("OLL-40")
def test_what_was_never_published_cannot_be_pulled() -> None:
    text = "pull model manifest: file does not exist"
    lines = ask(App(), "POST", "/api/pull", model="nonesuch").body.splitlines()
    assert [msgspec.json.decode(line) for line in lines] == [{"status": "pulling manifest"}, {"error": text}]
    answer = ask(App(), "POST", "/api/pull", model="nonesuch", stream=False)
    assert (answer.status, answer.json()) == (500, {"error": text})


def test_a_deleted_model_is_gone() -> None:
    app = App()
    answer = ask(app, "DELETE", "/api/delete", model="gemma3:4b")
    assert (answer.status, answer.body) == (200, b"")
    assert "gemma3:4b" not in names(app)
    assert ask(app, "DELETE", "/api/delete", model="gemma3:4b").status == 404


@pytest.mark.rule("OLL-40")
def test_embeddings_are_unit_vectors_one_for_each_text() -> None:
    body = ask(App(), "POST", "/api/embed", model="nomic-embed-text", input=["a b", "c"]).json()
    assert [len(vector) for vector in body["embeddings"]] == [768, 768]
    assert all(math.isclose(sum(x * x for x in vector), 1, abs_tol=1e-5) for vector in body["embeddings"])
    assert ask(App(), "POST", "/api/embed", model="nomic-embed-text", input=[]).json()["embeddings"] == []


@pytest.mark.rule("OLL-40")
@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({"input": 3}, 400, "invalid input type"),
        ({"input": ["a", 3]}, 400, "invalid input type"),
        ({"input": "word" * 3_000, "truncate": False}, 400, "the input length exceeds the context length"),
        ({"input": "a", "model": "nonesuch"}, 404, "model 'nonesuch' not found"),
    ],
)
def test_embeddings_want_texts_that_fit(body: dict[str, Any], status: int, text: str) -> None:
    answer = ask(App(), "POST", "/api/embed", **{"model": "nomic-embed-text", **body})
    assert (answer.status, answer.json()) == (status, {"error": text})


def test_the_older_form_takes_one_prompt() -> None:
    body = ask(App(), "POST", "/api/embeddings", model="nomic-embed-text", prompt="hello").json()
    assert len(body["embedding"]) == 768
    assert ask(App(), "POST", "/api/embeddings", model="nomic-embed-text").json() == {"embedding": []}
