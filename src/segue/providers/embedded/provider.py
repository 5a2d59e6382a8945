"""The provider `embedded`: a small model in this process. No key, no server, no network once the weights are here."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from segue.conversation.events import Failed
from segue.dialects.registry import DIALECTS
from segue.errors import UsageError
from segue.providers.adapter import ProviderAdapter, RequestSent
from segue.providers.capabilities import Capabilities, ConfigProblem, ModelInfo
from segue.providers.embedded.engine import (
    Engine,
    EngineSettings,
    EngineTransport,
    is_installed,
    require_engine,
)
from segue.providers.embedded.grammar import FORMS, offer_for, reply_grammar
from segue.providers.embedded.weights import Folder, Pull
from segue.providers.endpoint import Endpoint
from segue.providers.health import check_health
from segue.providers.provider import Provider
from segue.providers.requests.text_requests import as_text_request
from segue.transcript.rules import MediaRules
from segue.transcript.text_tools.reader import TextToolReader

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from segue.providers.adapter import ChatRequest, StreamEvent
    from segue.providers.capabilities import Health, OnCounted, OnEmbedded, OnPull, PullProgress
    from segue.providers.embedded.engine import Purpose
    from segue.providers.embedded.grammar import FormName
    from segue.providers.embedded.weights import Weights
    from segue.transcript.text_tools.form import Offer

_WIRE = DIALECTS["llama_cpp"]
# These models read text only: media are described in text.
_DIALECT = structs.replace(_WIRE, rules=structs.replace(_WIRE.rules, media=MediaRules()))
_ADDRESS = "embedded:"
_CONTEXT = 128
"""Tokens below which not even a greeting fits."""
_TEXTS = 16
"""Texts that are embedded in one go; between two goes other requests have their turn."""


class EmbeddedProvider(ProviderAdapter):
    """Runs the models of a folder. A model is loaded when first asked and kept until `close`."""

    def __init__(
        self,
        *,
        name: str = "embedded",
        model: str = "",
        folder: Path | None = None,
        threads: int = 1,
        context: int | None = None,
        form: FormName = "json",
    ) -> None:
        """`model` is meant when a request names none; `form` is how the model is made to call tools."""
        self.name = name
        self._folder = Folder(folder)
        self._model = model
        self._threads = threads
        self._context = context
        self._form = FORMS[form]
        self._engines: dict[tuple[str, Purpose], Engine] = {}
        transport = EngineTransport(self._engine)
        endpoint = Endpoint(provider=name, dialect=_DIALECT, base_url=_ADDRESS, transport=transport)
        self._chat = Provider(endpoint, model=self.model)
        self.capabilities = Capabilities(
            count_tokens=self.count_tokens,
            preview=self.preview,
            list_models=self.list_models,
            show_model=self.show_model,
            pull_model=self.pull_model,
            delete_model=self.delete_model,
            embed=self.embed,
            health=self.health,
            validate_config=self.validate_config,
        )

    @property
    def model(self) -> str:
        """The model that is meant when none is named."""
        return self._model or self._folder.default()

    def is_available(self, model: str = "") -> bool:
        """Whether engine and weights are here. Nothing is loaded."""
        wanted = model or self.model
        return is_installed() and any(
            weights.name == wanted and self._folder.has(weights) for weights in self._folder.all()
        )

    async def chat_stream(self, request: ChatRequest) -> AsyncIterator[StreamEvent]:
        try:
            offer, plain = self._as_text(request)
        except UsageError as error:
            yield Failed(error)
            return
        reader = TextToolReader(self._form.form.new_scanner(offer)) if offer.tools else None
        async with aclosing(self._chat.chat_stream(plain)) as events:
            async for event in events:
                for read in (event,) if reader is None or type(event) is RequestSent else reader.feed(event):
                    yield read

    def takes_schema(self, request: ChatRequest) -> bool:
        """A grammar holds every reply to it."""
        return request.options.response_schema is not None

    def preview(self, request: ChatRequest) -> RequestSent:
        """The request that the engine would get."""
        return self._chat.preview(self._as_text(request)[1])

    def _as_text(self, request: ChatRequest) -> tuple[Offer, ChatRequest]:
        """The offer of a request, and the request in plain messages under a grammar: any chat template will do."""
        named = self._named(request.model)
        offer = offer_for(request.tools, request.options)
        plain = as_text_request(self._with_defaults(request, named), offer, self._form.form)
        grammar = reply_grammar(offer, self._form)
        extra = {} if grammar is None else {"grammar": grammar}
        options = structs.replace(
            plain.options, response_schema=None, extra={**extra, **(plain.options.extra or {})} or None
        )
        # Earlier thoughts would only lengthen the prompt of a small model.
        policy = structs.replace(plain.policy, include_reasoning=False)
        return offer, structs.replace(plain, model=named, options=options, policy=policy)

    def _with_defaults(self, request: ChatRequest, model: str) -> ChatRequest:
        """The same request; what it leaves open is as this model does best."""
        weights = self._folder.known(model)
        if weights is None:
            return request
        conversation = request.conversation
        if weights.system and not conversation.system:
            conversation = structs.replace(conversation, system=weights.system)
        options = request.options.over(weights.sampling)
        return structs.replace(request, conversation=conversation, options=options)

    async def count_tokens(self, request: ChatRequest) -> int:
        """By the model's own tokenizer, tools and template included."""
        body: dict[str, Any] = msgspec.json.decode(self.preview(request).body)
        return await self._engine(body["model"]).count(
            msgspec.json.encode({"model": body["model"], "messages": body["messages"]})
        )

    async def embed(
        self,
        texts: Sequence[str],
        *,
        model: str = "",
        dimensions: int | None = None,
        on_progress: OnEmbedded | None = None,
        on_counted: OnCounted | None = None,
    ) -> list[list[float]]:
        """The mean of what the model makes of each token. Read docs/embedded.md before you rely on it."""
        del on_counted  # it counts none
        named = self._named(model)
        known = self._folder.find(named).dimensions
        if dimensions is not None and known is not None and dimensions != known:
            raise UsageError(
                f'The vectors of "{named}" have {known} dimensions, not {dimensions}.',
                code="wrong_dimensions",
                path="dimensions",
                hint="Remove dimensions.",
            )
        vectors: list[list[float]] = []
        for start in range(0, len(texts), _TEXTS):
            vectors += await self._engine(named, "embedding").embed(list(texts[start : start + _TEXTS]))
            if on_progress is not None:
                on_progress(len(vectors), len(texts))
        return vectors

    # Models

    async def list_models(self, *, refresh: bool = False) -> list[ModelInfo]:
        """All that can be used; `details["installed"]`: whether it is downloaded."""
        del refresh
        return [self._info(weights) for weights in self._folder.all()]

    async def show_model(self, name: str) -> ModelInfo:
        return self._info(self._folder.find(name))

    async def pull_model(self, name: str, on_progress: OnPull | None = None) -> None:
        """Download weights; an interrupted pull resumes where it stopped. Cancelling it stops it at once."""
        loop = asyncio.get_running_loop()

        def report(progress: PullProgress) -> None:
            if on_progress is not None and not pull.stop.is_set():
                loop.call_soon_threadsafe(on_progress, progress)

        weights = self._folder.find(name)
        if not weights.sha256:
            raise UsageError(
                f'"{name}" was put into the folder by hand: there is nowhere to pull it from.',
                code="not_pullable",
            )
        pull = Pull(self._folder, weights, report)
        try:
            await asyncio.to_thread(pull.run)
        finally:
            pull.stop.set()

    async def delete_model(self, name: str) -> None:
        weights = self._folder.find(name)
        for key in [key for key in self._engines if key[0] == name]:
            await asyncio.to_thread(self._engines.pop(key).close)
        self._folder.delete(weights.name)

    def _info(self, weights: Weights) -> ModelInfo:
        file = self._folder.file(weights)
        installed = self._folder.has(weights)
        details = {"installed": installed, "license": weights.license, "file": str(file)}
        return ModelInfo(
            id=weights.name,
            provider=self.name,
            name=weights.title or weights.name,
            capabilities=("embeddings", "json_schema", "streaming", "tools"),
            context=self._context or weights.context,
            output=weights.output,
            dimensions=weights.dimensions,
            size_bytes=weights.size or (file.stat().st_size if installed else None),
            details={key: value for key, value in details.items() if value != ""},
        )

    # Health

    async def health(self) -> Health:
        """Whether engine and weights are here. Nothing is loaded."""
        return await check_health(self.name, self._probe)

    async def _probe(self) -> None:
        if not is_installed():
            require_engine()
        self._folder.need(self.model)

    def validate_config(self) -> list[ConfigProblem]:
        problems = [
            ConfigProblem(
                field=field, message=f"{field} must be at least {least}.", value=str(value), hint=hint
            )
            for field, value, least, hint in (
                ("threads", self._threads, 1, "One is the default."),
                ("context", self._context or _CONTEXT, _CONTEXT, "Remove it to use the model's own."),
            )
            if value < least
        ]
        try:
            self._folder.find(self.model)
        except UsageError as error:
            problems.append(
                ConfigProblem(field="model", message=error.message, value=self.model, hint=error.hint)
            )
        return problems

    def close(self) -> None:
        """Give back the memory of all models."""
        while self._engines:
            self._engines.popitem()[1].close()

    def _named(self, model: str) -> str:
        return self.model if model in ("", "default") else model

    def _engine(self, model: str, purpose: Purpose = "chat") -> Engine:
        found = self._engines.get((model, purpose))
        if found is None:
            weights = self._folder.find(model)
            settings = EngineSettings(
                model=model,
                path=self._folder.need(model),
                context=self._context or weights.context,
                output=weights.output,
                seconds=weights.seconds,
                threads=self._threads,
                purpose=purpose,
            )
            found = self._engines[model, purpose] = Engine(settings)
        return found
