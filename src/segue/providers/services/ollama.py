"""Ollama's own wire: the models of a machine, their embeddings, and a window wide enough for what is asked."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from msgspec import Struct, structs

from segue.dialects.errors import FailedResponse
from segue.dialects.openai_chat.ollama.reply import error_from
from segue.dialects.streams.ndjson import LineDecoder
from segue.errors import TransportError, while_doing
from segue.providers.capabilities import ModelInfo, ModelType, OnPull, PullProgress
from segue.providers.endpoint import request_json, text, whole
from segue.providers.models.catalog import EmbeddingLimits, catalog, type_of
from segue.providers.services import Counted, Services
from segue.providers.token_counts import Estimator, family_of
from segue.transports.transport import Timeouts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from segue.conversation.options import Options
    from segue.dialects.card import ModelCard
    from segue.providers.adapter import ChatRequest
    from segue.providers.endpoint import Endpoint

_CAPABILITIES: Final[Mapping[str, str]] = {"tools": "tools", "vision": "vision", "thinking": "reasoning"}
_PULLING: Final = Timeouts(first_byte=60.0, idle=300.0)
"""A download may stall for minutes while the server verifies what it has."""


def services(dialect: str) -> Services:
    return Services(
        list_models=list_models,
        show_model=show_model,
        shows_limits=True,
        pull_model=pull_model,
        delete_model=delete_model,
        running_models=running_models,
        embed=embed,
        embedding_limits=catalog().embeddings.get(dialect, EmbeddingLimits()),
    )


# Models


class _List(Struct):
    models: list[dict[str, Any]] | None = None


async def list_models(endpoint: Endpoint) -> list[ModelInfo]:
    """What is on the machine."""
    answer = await request_json(endpoint, "GET", "/api/tags", _List)
    return [_model_info(entry, endpoint) for entry in answer.models or () if _name(entry)]


async def running_models(endpoint: Endpoint) -> list[ModelInfo]:
    """What is in memory, with the window it was loaded with and how long it stays."""
    with while_doing(f"Asking {endpoint.provider} for its running models failed"):
        answer = await request_json(endpoint, "GET", "/api/ps", _List)
    running = []
    for entry in answer.models or ():
        info = _model_info(entry, endpoint)
        kept = {key: entry[key] for key in ("expires_at", "size_vram") if key in entry}
        running.append(
            structs.replace(
                info, context=whole(entry.get("context_length")), details={**info.details, **kept}
            )
        )
    return running


async def show_model(endpoint: Endpoint, name: str) -> ModelInfo:
    """All about one model: also what it can do, and the window it was made for."""
    entry = await request_json(endpoint, "POST", "/api/show", dict[str, Any], {"model": name})
    facts = entry.get("model_info")
    facts = facts if isinstance(facts, dict) else {}
    architecture = text(facts.get("general.architecture"))
    info = _model_info({**entry, "name": name}, endpoint)
    is_embedding = info.type == "embedding"
    return structs.replace(
        info,
        context=whole(facts.get(f"{architecture}.context_length")),
        dimensions=whole(facts.get(f"{architecture}.embedding_length")) if is_embedding else None,
    )


def _name(entry: Mapping[str, Any]) -> str:
    return text(entry.get("name")) or text(entry.get("model"))


def _model_info(entry: Mapping[str, Any], endpoint: Endpoint) -> ModelInfo:
    name = _name(entry)
    details = entry.get("details")
    listed = entry.get("capabilities")
    able = listed if isinstance(listed, list) else []
    return ModelInfo(
        id=name,
        provider=endpoint.provider,
        name=name,
        type=_type(name, able),
        capabilities=tuple(sorted(ours for theirs, ours in _CAPABILITIES.items() if theirs in able)),
        context=whole(details.get("context_length")) if isinstance(details, dict) else None,
        size_bytes=whole(entry.get("size")),
        modified_at=text(entry.get("modified_at")),
        details={
            **(details if isinstance(details, dict) else {}),
            **({"capabilities": able} if able else {}),
        },
    )


def _type(name: str, able: Sequence[Any]) -> ModelType:
    if "completion" in able:
        return "chat"
    if "embedding" in able:
        return "embedding"
    return "image" if "image" in able else type_of(name)


class _Progress(Struct):
    status: str = ""
    completed: int | None = None
    total: int | None = None
    error: Any = None


async def pull_model(endpoint: Endpoint, name: str, on_progress: OnPull | None = None) -> None:
    """Download a model. A stream that ends without the server's success is an error."""
    with while_doing(f'Pulling "{name}" to {endpoint.provider} at {endpoint.base_url} failed'):
        await _pull(endpoint, name, on_progress)


async def _pull(endpoint: Endpoint, name: str, on_progress: OnPull | None) -> None:
    body = msgspec.json.encode({"model": name, "stream": True})
    lines, last = LineDecoder(), ""
    async with endpoint.ask("POST", "/api/pull", body, timeouts=_PULLING) as answer:
        async for portion in answer.portions():
            for line in lines.feed(portion):
                last = _report(line, on_progress) or last
        for line in lines.close():
            last = _report(line, on_progress) or last
    if last != "success":
        raise TransportError(
            "the download ended before it was whole" + (f', after "{last}".' if last else "."),
            code="pull_incomplete",
            hint="Pull it again: it resumes where it stopped.",
        )


def _report(line: bytes, on_progress: OnPull | None) -> str | None:
    """Report one line, and return its status; an error inside the stream is raised too. None if the line cannot be read: the
    next one says how far it is, and the last one whether all is there."""
    try:
        progress = msgspec.json.decode(line, type=_Progress)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if progress.error is not None:
        raise error_from(progress.error, FailedResponse(body=line))
    if on_progress is not None:
        on_progress(PullProgress(progress.status, progress.completed, progress.total))
    return progress.status


async def delete_model(endpoint: Endpoint, name: str) -> None:
    body = msgspec.json.encode({"model": name})
    with while_doing(f'Deleting "{name}" from {endpoint.provider} at {endpoint.base_url} failed'):
        async with endpoint.ask("DELETE", "/api/delete", body) as answer:
            await answer.read()


# Embeddings


class _Vectors(Struct):
    embeddings: list[list[float]]
    prompt_eval_count: int | None = None


async def embed(endpoint: Endpoint, model: str, texts: Sequence[str], dimensions: int | None) -> Counted:
    # By default the server silently cuts off what is too long.
    body: dict[str, Any] = {"model": model, "input": list(texts), "truncate": False}
    if dimensions is not None:
        body["dimensions"] = dimensions
    answer = await request_json(endpoint, "POST", "/api/embed", _Vectors, body)
    return answer.embeddings, answer.prompt_eval_count


# The window (OLL-15, OLL-16)

SMALLEST: Final = 4096
"""What every server gives unasked; larger machines give more."""
_ANSWER, _THOUGHTS = 2048, 4096
"""Tokens kept free for an answer, and for reasoning before it, if no limit is set."""
_KEPT_SESSIONS: Final = 64


@final
class Windows:
    """Asks for a window that holds the whole request, for the server silently drops what does not fit.

    A window that changes makes the server load the model anew, so it is left alone while the smallest will do, and grows in
    steps. It depends on the request alone, whichever process sends it. What the user has set is what is asked for.
    """

    def __init__(self) -> None:
        self._estimators: OrderedDict[tuple[str, str], Estimator] = OrderedDict()
        """By session and model: of a conversation that continues only the new part is counted."""

    def __call__(self, request: ChatRequest, card: ModelCard) -> Options:
        options = request.options
        if _asked(options):
            return options
        if request.context is not None:
            return _with_window(options, request.context)
        tokens = self._of(request).estimate(request) * (1 + family_of(request.model).error)
        thoughts = 0 if card.thinking in ("", "none") or options.effort == "none" else _THOUGHTS
        need = math.ceil(tokens) + (options.max_tokens or _ANSWER + thoughts)
        return options if need <= SMALLEST else _with_window(options, window_for(need, card.context))

    def _of(self, request: ChatRequest) -> Estimator:
        if not request.session:
            return Estimator()
        estimator = self._estimators.pop((request.session, request.model), None) or Estimator()
        self._estimators[request.session, request.model] = estimator
        if len(self._estimators) > _KEPT_SESSIONS:
            self._estimators.popitem(last=False)
        return estimator


def _with_window(options: Options, window: int) -> Options:
    return structs.replace(options, extra={**(options.extra or {}), "num_ctx": window})


def window_for(need: int, most: int | None) -> int:
    """The window for so many tokens: a power of two or one and a half of it."""
    window = SMALLEST
    while window < need:
        half = window + window // 2
        window = half if half >= need else window * 2
    return window if most is None else min(window, most)


def _asked(options: Options) -> bool:
    extra = options.extra or {}
    inside = extra.get("options")
    return "num_ctx" in extra or (isinstance(inside, dict) and "num_ctx" in inside)
