"""The models of the server: tags, show, pull, delete, ps, version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from segue.emulators.http import Request, Response, json_response, stream_response
from segue.emulators.model.model_facts import facts_for
from segue.emulators.ollama import errors, gojson, window
from segue.emulators.ollama.store import Installed, full_name, store_of, timestamp
from segue.emulators.request_checks import Check, admitted
from segue.emulators.rules import Complaints, Context, Refusal, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType

    from segue.emulators.emulator import Emulator

VERSION = "0.33.0"
NDJSON = "application/x-ndjson"
_LAYERS = 3
_NO_MANIFEST = "pull model manifest: file does not exist"


def accepted(
    request: Request, emulator: Emulator, complaints: Check, words: ModuleType = errors
) -> tuple[dict[str, Any], Context]:
    """The body and its circumstances. Raises RefusedError, which is answered in these words."""
    # The store must exist before the checks look for it in the provider's memory.
    store_of(emulator)
    return admitted(request, emulator, "ollama", words, complaints)


def load(
    emulator: Emulator, body: Mapping[str, Any], context: Context, keep_alive: float | None = None
) -> None:
    store_of(emulator).load(
        context.model, now=emulator.clock(), keep_alive=keep_alive, context=window.size(body, context)
    )


def details(model: Installed) -> dict[str, Any]:
    family = model.facts.get("family", "llama")
    return {
        "parent_model": "",
        "format": "gguf",
        "family": family,
        "families": [family],
        "parameter_size": model.facts.get("parameters", ""),
        "quantization_level": "Q4_K_M",
    }


def _unnamed(body: object, _: Context) -> Complaints:
    fields = {"model": gojson.STRING, "name": gojson.STRING, "stream": gojson.BOOL}
    for sentence in gojson.decode(body, "ModelRequest", "api.ModelRequest", fields):
        yield Refusal("OLL-00", sentence)
    if isinstance(body, dict | None) and not _name(body):
        yield Refusal("OLL-11", "model is required")


def _name(body: Mapping[str, Any] | None) -> Any:
    """The model that a request names as `model`, or by the older word `name`."""
    return body and (body.get("model") or body.get("name"))


def not_found(name: str) -> Refusal:
    return Refusal("OLL-11", f"model '{name}' not found", status=404, type="not_found_error")


def tags(request: Request, emulator: Emulator) -> Response:  # noqa: ARG001 — a handler
    return json_response({"models": [_tag(model) for model in store_of(emulator)]})


def _tag(model: Installed) -> dict[str, Any]:
    return {
        "name": model.name,
        "model": model.name,
        "modified_at": timestamp(model.since),
        "size": model.facts.get("size", 0),
        "digest": model.digest,
        "details": details(model),
        "capabilities": list(model.facts.get("capabilities", ())),
    }


def show(request: Request, emulator: Emulator) -> Response:
    body, context = accepted(request, emulator, _unnamed)
    model = store_of(emulator).find(_name(body))
    if model is None:
        raise RefusedError(not_found(_name(body)), context)
    family = model.facts.get("family", "llama")
    return json_response(
        {
            "modelfile": f"FROM {model.name}\n",
            "parameters": "",
            "template": "{{ .Prompt }}",
            "details": details(model),
            "model_info": {
                "general.architecture": family,
                f"{family}.context_length": model.facts.get("context", 4096),
                f"{family}.embedding_length": model.facts.get("embedding", 4096),
            },
            "capabilities": list(model.facts.get("capabilities", ())),
            "modified_at": timestamp(model.since),
        }
    )


def pull(request: Request, emulator: Emulator) -> Response:
    body, context = accepted(request, emulator, _unnamed)
    name = _name(body)
    facts = facts_for("ollama", full_name(name))
    published = bool(facts.get("published", True))
    if published:
        store_of(emulator).install(name, int(emulator.clock()))
    if body.get("stream") is not False:
        return stream_response(_progress(name, facts, published=published), content_type=NDJSON)
    if published:
        return json_response({"status": "success"})
    raise RefusedError(Refusal("OLL-40", _NO_MANIFEST, status=500, type="api_error"), context)


def _progress(name: str, facts: Mapping[str, Any], *, published: bool) -> Iterator[bytes]:
    yield _line({"status": "pulling manifest"})
    if not published:
        yield _line({"error": _NO_MANIFEST})
        return
    for layer in range(_LAYERS):
        digest = Installed(f"{full_name(name)}/{layer}", 0).digest
        total = int(facts.get("size", 0)) if layer == 0 else 1024
        for completed in (0, total // 2, total):
            state = {"status": f"pulling {digest[:12]}", "digest": f"sha256:{digest}", "total": total}
            yield _line({**state, "completed": completed} if completed else state)
    for status in ("verifying sha256 digest", "writing manifest", "success"):
        yield _line({"status": status})


def _line(value: dict[str, Any]) -> bytes:
    return msgspec.json.encode(value) + b"\n"


def delete(request: Request, emulator: Emulator) -> Response:
    body, context = accepted(request, emulator, _unnamed)
    if not store_of(emulator).remove(_name(body)):
        raise RefusedError(not_found(_name(body)), context)
    return Response()


def running(request: Request, emulator: Emulator) -> Response:  # noqa: ARG001 — a handler
    store = store_of(emulator)
    listed = []
    for loaded in store.loaded(emulator.clock()):
        model = store.find(loaded.name)
        if model is not None:
            entry = _tag(model)
            size = entry["size"]
            listed.append(
                {
                    **{key: entry[key] for key in ("name", "model", "size", "digest", "details")},
                    "expires_at": timestamp(loaded.until),
                    "size_vram": size,
                    "context_length": loaded.context,
                }
            )
    return json_response({"models": listed})


def version(request: Request, emulator: Emulator) -> Response:  # noqa: ARG001 — a handler
    return json_response({"version": VERSION})


def alive(request: Request, emulator: Emulator) -> Response:  # noqa: ARG001 — a handler
    return Response(headers={"content-type": "text/plain; charset=utf-8"}, body=b"Ollama is running")
