"""The models of the server: tags, show, pull, delete, ps, version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from segue.emulators.http import BadJsonError, Request, Response, json_response, stream_response
from segue.emulators.model_facts import facts_for
from segue.emulators.ollama import errors, gojson
from segue.emulators.ollama.store import Installed, Store, full_name, store_in, timestamp
from segue.emulators.rules import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from segue.emulators.emulator import Emulator

VERSION = "0.33.0"
NDJSON = "application/x-ndjson"
_LAYERS = 3
_NO_MANIFEST = "pull model manifest: file does not exist"


def store_of(emulator: Emulator) -> Store:
    return store_in(emulator.memory("ollama"), int(emulator.clock()))


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


def named(request: Request, emulator: Emulator) -> str | Response:
    """The model that a request names as `model`, or by the older word `name`."""
    try:
        body = request.json()
    except BadJsonError:
        return _refuse(Refusal("OLL-11", gojson.not_json(request.body)), request, emulator)
    fields = {"model": gojson.STRING, "name": gojson.STRING, "stream": gojson.BOOL}
    sentence = next(gojson.decode(body, "ModelRequest", "api.ModelRequest", fields), None)
    if sentence is not None:
        return _refuse(Refusal("OLL-00", sentence), request, emulator)
    name = (body or {}).get("model") or (body or {}).get("name")
    if not name:
        return _refuse(Refusal("OLL-11", "model is required"), request, emulator)
    return str(name)


def not_found(name: str) -> Refusal:
    return Refusal("OLL-11", f"model '{name}' not found", status=404, type="not_found_error")


def _refuse(refusal: Refusal, request: Request, emulator: Emulator) -> Response:
    return errors.refuse(refusal, emulator.context(request, provider="ollama"))


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
    name = named(request, emulator)
    if isinstance(name, Response):
        return name
    model = store_of(emulator).find(name)
    if model is None:
        return _refuse(not_found(name), request, emulator)
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
    name = named(request, emulator)
    if isinstance(name, Response):
        return name
    facts = facts_for("ollama", full_name(name))
    published = bool(facts.get("published", True))
    if published:
        store_of(emulator).install(name, int(emulator.clock()))
    if request.json().get("stream") is not False:
        return stream_response(_progress(name, facts, published=published), content_type=NDJSON)
    if published:
        return json_response({"status": "success"})
    refusal = Refusal("OLL-40", _NO_MANIFEST, status=500, type="api_error")
    return _refuse(refusal, request, emulator)


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
    name = named(request, emulator)
    if isinstance(name, Response):
        return name
    if not store_of(emulator).remove(name):
        return _refuse(not_found(name), request, emulator)
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
