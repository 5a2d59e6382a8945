"""The models of one Ollama server: which are installed and loaded, what is known about each and fits its window
(OLL-15, OLL-16), and the paths that manage them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Struct

from segue.emulators.http import Request, Response, json_response, stream_response
from segue.emulators.model import model_facts
from segue.emulators.model.model_facts import facts_for, listed
from segue.emulators.ollama import gojson
from segue.emulators.ollama.errors import ERRORS
from segue.emulators.request_checks import Check, admitted
from segue.emulators.rules import Complaints, Context, Refusal, RefusedError, rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from segue.emulators.emulator import Emulator
    from segue.emulators.http import ErrorWords


REGISTRY = "registry.ollama.ai/library"
_KEY = "store"
_DEFAULT_KEEP_ALIVE = 300.0
_FOREVER = 10.0 * 365 * 24 * 3600


class Installed(Struct, frozen=True):
    """A pulled model."""

    name: str
    since: int

    @property
    def facts(self) -> Mapping[str, Any]:
        return facts_for("ollama", self.name)

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.name.encode()).hexdigest()


class Loaded(Struct, frozen=True):
    """A model that sits in memory until its time is up."""

    name: str
    until: float
    context: int


class Store:
    """Models by their full name, tag included: `qwen3` is `qwen3:latest`."""

    def __init__(self, now: int) -> None:
        self._installed = {name: Installed(name, now) for name in listed("ollama")}
        self._loaded: dict[str, Loaded] = {}

    def __iter__(self) -> Iterator[Installed]:
        return iter(self._installed.values())

    def find(self, name: str) -> Installed | None:
        return self._installed.get(full_name(name))

    def install(self, name: str, now: int) -> Installed:
        model = Installed(full_name(name), now)
        self._installed[model.name] = model
        return model

    def remove(self, name: str) -> bool:
        self._loaded.pop(full_name(name), None)
        return self._installed.pop(full_name(name), None) is not None

    def load(self, name: str, *, now: float, keep_alive: float | None, context: int) -> None:
        """OLL-13: five minutes unless asked otherwise, negative keeps it for good, zero unloads at once."""
        seconds = _DEFAULT_KEEP_ALIVE if keep_alive is None else keep_alive
        if seconds == 0:
            self._loaded.pop(full_name(name), None)
            return
        until = now + (_FOREVER if seconds < 0 else min(seconds, _FOREVER))
        self._loaded[full_name(name)] = Loaded(full_name(name), until, context)

    def loaded(self, now: float) -> list[Loaded]:
        return [model for model in self._loaded.values() if model.until > now]


def full_name(name: str) -> str:
    short = name.removeprefix(REGISTRY + "/").removeprefix("library/")
    return short if ":" in short else f"{short}:latest"


def store_of(emulator: Emulator) -> Store:
    """The server's store, made with the default models when it is asked for first."""
    memory = emulator.memory("ollama")
    if _KEY not in memory:
        memory[_KEY] = Store(int(emulator.clock()))
    store: Store = memory[_KEY]
    return store


def known_store(memory: Mapping[str, Any]) -> Store | None:
    """The store if there is a running server behind the check; a pure check knows none."""
    store: Store | None = memory.get(_KEY)
    return store


def timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


Message: TypeAlias = Mapping[str, Any]

_THOUGHTS = re.compile(r"<think>.*?</think>\s*", re.DOTALL)
DEFAULT = 4096
"""OLL-15: what a machine with less than 23 GiB of video memory gets, whatever the model could take."""


def size(body: Mapping[str, Any], context: Context) -> int:
    """The window of this request: asked for, or the default, and never more than the model has."""
    options = body.get("options")
    asked = options.get("num_ctx") if isinstance(options, Mapping) else None
    wanted = int(asked) if isinstance(asked, int | float) and asked > 0 else DEFAULT
    return min(wanted, int(context.facts.get("context", wanted)))


def messages_of(body: Mapping[str, Any]) -> list[Message]:
    """The messages of a readable request; null stands for an empty one."""
    return [message or {} for message in body.get("messages") or ()]


@rule("OLL-09")
def read(body: Mapping[str, Any], context: Context) -> list[Message]:
    """The messages as the model gets them: some forget what was thought aloud before the last question."""
    messages = messages_of(body)
    if not context.facts.get("strips_thoughts"):
        return messages
    asked = [index for index, message in enumerate(messages) if message.get("role") == "user"]
    return [
        {**message, "content": _THOUGHTS.sub("", message["content"])}
        if index < max(asked, default=0) and message.get("role") == "assistant" and message.get("content")
        else message
        for index, message in enumerate(messages)
    ]


def cost(message: Message) -> int:
    text_tokens = sum(
        model_facts.count_tokens(text)
        for key in ("content", "thinking")
        if isinstance(text := message.get(key), str)
    )
    calls = message.get("tool_calls")
    return 4 + text_tokens + (model_facts.count_value_tokens(calls) if calls else 0)


def prompt_tokens(messages: Sequence[Message], tools: object) -> int:
    return sum(map(cost, messages)) + (model_facts.count_value_tokens(tools) if tools else 0)


def kept(messages: Sequence[Message], tools: object, limit: int) -> list[Message]:
    """What is left when messages are dropped from the front: system messages and the last one always stay."""
    excess = prompt_tokens(messages, tools) - limit
    left: list[Message] = []
    for index, message in enumerate(messages):
        stays = message.get("role") == "system" or index == len(messages) - 1
        if excess > 0 and not stays:
            excess -= cost(message)
        else:
            left.append(message)
    return left


def evaluated(messages: Sequence[Message], tools: object, limit: int) -> int:
    """The prompt tokens that are really read; a prompt that still does not fit is cut to half the window."""
    total = prompt_tokens(kept(messages, tools, limit), tools)
    return total if total <= limit else limit // 2


VERSION = "0.33.0"
NDJSON = "application/x-ndjson"
_LAYERS = 3
_NO_MANIFEST = "pull model manifest: file does not exist"


def accepted(
    request: Request, emulator: Emulator, complaints: Check, words: ErrorWords = ERRORS
) -> tuple[dict[str, Any], Context]:
    """The body and its circumstances. Raises RefusedError, which is answered in these words."""
    # The store must exist before the checks look for it in the provider's memory.
    store_of(emulator)
    return admitted(request, emulator, words, complaints)


def load(
    emulator: Emulator, body: Mapping[str, Any], context: Context, keep_alive: float | None = None
) -> None:
    store_of(emulator).load(
        context.model, now=emulator.clock(), keep_alive=keep_alive, context=size(body, context)
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
