"""A provider: a dialect at an address, with a key. Sends requests there and streams the reply."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import structs

from segue.conversation.blocks import Origin
from segue.conversation.events import Failed, Finished
from segue.dialects.errors import refuses_stream
from segue.dialects.replies.whole_reply import decoder_for
from segue.errors import CredentialsError, InvalidRequestError, ProtocolError, SegueError, UsageError
from segue.limits import DEFAULT_MODEL
from segue.providers.adapter import EnoughError, ProviderAdapter, RequestSent
from segue.providers.capabilities import Capabilities
from segue.providers.embeddings import Embeddings
from segue.providers.headroom import HeadroomBook
from segue.providers.health import check_health
from segue.providers.hosts.addresses import path_of
from segue.providers.hosts.host_form import (
    HostForm,
    HostRefusals,
    fitted_body,
    fitted_headers,
    plain_response,
)
from segue.providers.models.cards import card_for_model, default_model
from segue.providers.models.catalog import models_of
from segue.providers.models.listing import CatalogList, LearnedCards, ModelList, show_model
from segue.providers.models.makers import model_suggestion
from segue.providers.requests.abort import AbortedError, Waiting
from segue.providers.requests.reply_events import ReplyReader, pulled
from segue.providers.requests.request_writer import KeptPlans, RequestWriter
from segue.providers.services import new_fitting, services_for
from segue.text.redaction import redact_text
from segue.transcript.repairs import Repair

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from segue.conversation.options import Options
    from segue.dialects.card import ModelCard
    from segue.dialects.dialect import Dialect
    from segue.dialects.plan import Plan
    from segue.dialects.server_side.wire_server import ServerFacts
    from segue.providers.adapter import ChatRequest, Feature, StreamEvent, TakeEvents
    from segue.providers.batches.wire_batch import BatchAccess
    from segue.providers.capabilities import ConfigProblem, Health, ListModels
    from segue.providers.credentials import Credentials
    from segue.providers.endpoint import Endpoint, NoteHeaders
    from segue.providers.hosts.addresses import Address
    from segue.providers.services import CountService, Services
    from segue.transports.transport import PushedResponse

_NOT_FOUND: Final = 404
_NO_SUCH_PATH: Final = (404, 405)
_PLAIN: Final = HostForm()


class _Prepared(NamedTuple):
    """A request and where it goes."""

    endpoint: Endpoint
    path: str
    plan: Plan
    card: ModelCard
    stream: bool

    @property
    def sent(self) -> RequestSent:
        plan = self.plan
        return RequestSent(
            origin=plan.origin,
            made_under=plan.made_under,
            repairs=plan.repairs,
            body=plan.body,
            url=self.endpoint.base_url + self.path,
        )


class Provider(ProviderAdapter):
    """Uses one or several dialects at one address."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        others: Sequence[Dialect] = (),
        key: Credentials | None = None,
        address: Address | None = None,
        model: str = "",
        context: int | None = None,
        model_behind: Callable[[str], str] = str,
        problems: Callable[[], list[ConfigProblem]] = list,
    ) -> None:
        """`others`: more dialects, for the models that need them. `model`: used if a request names none. `context`: the window of its models, where the user has set it. `model_behind`: the model that a name of the user's own stands for."""
        self.name = endpoint.provider
        self.endpoint = endpoint
        self.address = address
        self.model = model
        self._context = context
        self._model_behind = model_behind
        self._form = address.form if address is not None else _PLAIN
        self._facts = dict(address.card) if address is not None else {}
        self._refusals = HostRefusals()
        self.headroom: HeadroomBook = HeadroomBook()
        self._key = key
        self._problems = problems
        paths = address.dialect_paths if address is not None else {}
        self._endpoints = {
            dialect.name: structs.replace(
                endpoint, dialect=dialect, base_url=endpoint.base_url + paths.get(dialect.name, "")
            )
            for dialect in (endpoint.dialect, *others)
        }
        self.endpoint = endpoint = self._endpoints[endpoint.dialect.name]
        plans = KeptPlans()
        self._writers = {
            name: RequestWriter(name, self.name, place.base_url, plans)
            for name, place in self._endpoints.items()
        }
        self._previewed: tuple[ChatRequest, _Prepared] | None = None
        self._learned = LearnedCards(endpoint)
        self._fit = new_fitting(endpoint.dialect.name)

    def __repr__(self) -> str:
        return f"Provider({self.name} at {self.endpoint!r})"

    @cached_property
    def capabilities(self) -> Capabilities:  # type: ignore[override]  # made when it is first asked for
        """What its servers offer besides chat."""
        endpoint, services = self.endpoint, services_for(self.endpoint)
        model = self.address.embedding_model if self.address is not None else ""
        embeddings = Embeddings(endpoint, services, model) if services.embed is not None else None
        return Capabilities(
            count_tokens=self._token_counter(),
            preview=self.preview,
            push=self.push_chat,
            forward=self,
            list_models=self._model_list(services),
            show_model=services.show_model and partial(show_model, endpoint, services),
            running_models=services.running_models and partial(services.running_models, endpoint),
            pull_model=None if services.pull_model is None else partial(services.pull_model, endpoint),
            delete_model=services.delete_model and partial(services.delete_model, endpoint),
            embed=embeddings and embeddings.embed,
            embedding_model="" if embeddings is None else embeddings.model,
            embedding_dimensions=embeddings and embeddings.dimensions,
            cached_contents=None
            if services.cached_contents is None
            else partial(services.cached_contents, endpoint),
            batches=self._batches(),
            health=self.health,
            validate_config=self.validate_config,
        )

    def _batches(self) -> BatchAccess | None:
        if self.address is None or not self.address.batches:
            return None
        from segue.providers.batches.wire_batch import access_of  # noqa: PLC0415 - few ask for it

        return access_of(self)

    def _model_list(self, services: Services) -> ListModels | None:
        if services.list_models is not None:
            return ModelList(self.endpoint, services)
        listed = self.address.paths_of if self.address is not None else ""
        return CatalogList(listed) if listed and models_of(listed) else None

    def chat_stream(self, request: ChatRequest) -> AsyncGenerator[StreamEvent, None]:
        return pulled(self.push_chat, request)

    async def push_chat(self, request: ChatRequest, take: TakeEvents) -> None:
        """The events of `chat_stream`, those together that arrived together. What ends it comes alone, when the connection is
        free again. Nothing is raised but `EnoughError`, which comes from `take`."""
        waiting = Waiting(request.abort)
        last: StreamEvent | None = None
        try:
            prepared = await self._prepare_when_ready(request, waiting)
            if (wait := take([prepared.sent])) is not None:
                await wait
            async with AsyncExitStack() as opened:
                answer, streamed = await self._send(request, prepared, waiting, opened)
                decoder = decoder_for(prepared.endpoint.dialect, answer.headers, stream=streamed)
                reader = ReplyReader(decoder, prepared.endpoint, prepared.plan.names, answer.headers)
                await waiting.for_(reader.read(answer, take, waiting.check))
            last = reader.end
        except EnoughError:
            raise
        except AbortedError:
            last = Finished("cancelled")
        except SegueError as error:
            last = Failed(error)
        except Exception as error:  # whatever it is, the process and the session continue
            last = Failed(_unexpected(self.name, error))
        finally:
            waiting.close()
        if last is None:
            last = Failed(ProtocolError(f"The reply of {self.name} broke off before its end.", code="no_end"))
        if (wait := take([self._redacted_end(last)])) is not None:
            await wait

    async def _prepare_when_ready(self, request: ChatRequest, waiting: Waiting) -> _Prepared:
        await waiting.for_(self.endpoint.ready())
        await waiting.for_(self._learn(request))
        waiting.check()
        return self._prepare_once(request)

    def write(self, request: ChatRequest) -> Plan:
        """The request that would be sent, for whoever carries it. Raises what keeps it from being sent."""
        return self._prepare(request).plan

    def preview(self, request: ChatRequest) -> RequestSent:
        """The request that would be sent. Raises what keeps it from being sent."""
        prepared = self._prepare(request)
        self._previewed = request, prepared
        return prepared.sent

    def card(self, model: str) -> ModelCard:
        """The card of a model in the dialect that is used for it here."""
        endpoint, name = self.endpoint_for(model)
        return self._card(name, endpoint.dialect.name)

    def _card(self, model: str, dialect: str) -> ModelCard:
        card = self._learned.cards.get(model) or card_for_model(self._model_behind(model), dialect)
        facts = self._facts if self._context is None else {**self._facts, "context": self._context}
        if self._lacks and super().lacks(model, "tools"):
            facts = {**facts, "tools": False}
        return structs.replace(card, **facts) if facts else card

    def lacks(self, model: str, feature: Feature) -> bool:
        return bool(self._lacks) and super().lacks(self.endpoint_for(model)[1], feature)

    def learn_lack(self, model: str, feature: Feature) -> None:
        super().learn_lack(self.endpoint_for(model)[1], feature)

    def takes_schema(self, request: ChatRequest) -> bool:
        endpoint, name = self.endpoint_for(request.model)
        schema, offered = request.options.response_schema, any(one.kind != "server" for one in request.tools)
        card = self._card(name, endpoint.dialect.name)
        return (
            schema is not None
            and card.takes_schema(with_tools=offered)
            and endpoint.dialect.takes_schema(schema)
        )

    async def _send(
        self, request: ChatRequest, prepared: _Prepared, waiting: Waiting, opened: AsyncExitStack
    ) -> tuple[PushedResponse, bool]:
        """The answer, and whether it was asked to be a stream. A model that refuses to stream is asked again for a whole
        reply, and from then on for nothing else; so is a host that refuses a beta, without it."""
        endpoint, path, plan, _, stream = prepared
        headers = fitted_headers(self._form, request.headers, self._refusals)
        note = partial(self.headroom.note, request.model)
        asking = endpoint.ask("POST", path, plan.body, headers=headers, whole=not stream, note=note)
        try:
            answer = await waiting.for_(opened.enter_async_context(asking))
            return plain_response(self._form, answer), stream
        except InvalidRequestError as error:
            if stream and refuses_stream(error):
                self.learn_lack(request.model, "stream")
                return await self._send(request, self._prepare(request), waiting, opened)
            if self._form.learns and self._refusals.learn(error, request.headers, plan.body):
                return await self._send(request, self._prepare(request), waiting, opened)
            error.call_ids = plan.call_ids()
            error.repairs = tuple(str(repair) for repair in plan.repairs)
            if error.path == "model" or error.status == _NOT_FOUND:
                error.hint = error.hint or model_suggestion(plan.origin.model, self.name)
            raise

    def endpoint_on(self, server: ServerFacts) -> Endpoint | None:
        """The endpoint whose API is served so; None if this provider has none."""
        return next((place for place in self._endpoints.values() if place.dialect.server is server), None)

    def endpoint_of(self, model: str, *, stream: bool = True) -> tuple[Endpoint, str, str]:
        """Where requests for a model go: the endpoint, the path, and the model's own name."""
        endpoint, name = self.endpoint_for(model)
        return endpoint, self._path(endpoint.dialect.name, name, stream=stream), name

    def _prepare_once(self, request: ChatRequest) -> _Prepared:
        """A request that was previewed is mostly sent a moment later: it is not planned again, unless more is known by now."""
        previewed, self._previewed = self._previewed, None
        if previewed is not None and previewed[0] is request:
            prepared = previewed[1]
            streams = request.options.stream is not False and not self.lacks(request.model, "stream")
            if prepared.card == self.card(request.model) and prepared.stream == streams:
                return prepared
        return self._prepare(request)

    def _prepare(self, request: ChatRequest, wire: str = "") -> _Prepared:
        endpoint, asked, card, options = self._fitted(request, wire)
        dialect = endpoint.dialect.name
        path = self._path(dialect, asked.model, stream=bool(options.stream))
        plan = self._fit_to_host(self._writers[dialect].write(asked, options, card), request.headers)
        return _Prepared(endpoint, path, plan, card, bool(options.stream))

    def _path(self, dialect: str, model: str, *, stream: bool) -> str:
        at = self.address.paths_of if self.address is not None else ""
        return path_of(dialect, model, stream=stream, provider=at)

    def _fit_to_host(self, plan: Plan, headers: Mapping[str, str]) -> Plan:
        """The request as this host takes it."""
        body, left_out = fitted_body(self._form, plan.body, headers, self._refusals)
        if body is plan.body:
            return plan
        why = f"{self.name} refuses it"
        repairs = [Repair("option_not_sent", plan.origin.dialect, name, decision=why) for name in left_out]
        return structs.replace(plan, body=body, repairs=(*plan.repairs, *repairs))

    def _fitted(
        self, request: ChatRequest, wire: str = ""
    ) -> tuple[Endpoint, ChatRequest, ModelCard, Options]:
        """A request with the model's own name, and its options as the model takes them."""
        endpoint, name = self.endpoint_for(request.model)
        asked = structs.replace(request, model=name, context=request.context or self._context)
        endpoint = self._endpoints[wire] if wire else endpoint
        card = self._card(name, endpoint.dialect.name)
        fitting = request.options if self._fit is None else self._fit(asked, card)
        asks_for_cache = asked.session and asked.asks_for_cache
        lasting = self._lasting(endpoint.dialect.name) if asks_for_cache else {}
        extra = {**lasting, **(fitting.extra or {})} or None
        stream = fitting.stream is not False and not self.lacks(name, "stream")
        return endpoint, asked, card, structs.replace(fitting, model=asked.model, stream=stream, extra=extra)

    def _lasting(self, dialect: str) -> Mapping[str, Any]:
        """Fields of requests whose prefix will be sent again."""
        address = self.address
        return {} if address is None else address.in_sessions_of.get(dialect, address.in_sessions)

    def endpoint_for(self, model: str) -> tuple[Endpoint, str]:
        """With the dialect that the model needs by its card, if this provider has it; and the model's own name."""
        name = self._default_model() if model in ("", DEFAULT_MODEL) else model
        if len(self._endpoints) == 1:
            return self.endpoint, name
        wire = card_for_model(self._model_behind(name), self.endpoint.dialect.name).wire
        return self._endpoints.get(wire, self.endpoint), name

    def _default_model(self) -> str:
        usual = self.address.model if self.address is not None else ""
        meant = self.model or usual or self._learned.first or default_model(self.endpoint.dialect.name)
        if not meant:
            raise UsageError(
                f'No model is named, and provider "{self.name}" has no default one.',
                code="no_model",
                hint=f"Name one: {self.name}/MODEL, or set providers.{self.name}.model.",
            )
        return meant

    async def _learn(self, request: ChatRequest) -> None:
        """Ask the server about the model if its card lacks the context window."""
        model = request.model
        if model in ("", DEFAULT_MODEL):
            if self._default_model() == DEFAULT_MODEL:
                await self._learned.find_first()
            model = self._default_model()
        listed = card_for_model(self._model_behind(model), self.endpoint.dialect.name)
        if not listed.context:
            await self._learned.about(model, listed)
        if request.tools and model in self._learned.cards:
            self._learned.refuse_tools(model)

    def _redacted_end(self, last: StreamEvent) -> StreamEvent:
        """The end of a stream; an error in it names the provider, and no key. A key that was refused is looked for again next time."""
        if isinstance(last, Failed):
            self.endpoint.named(last.error)
            if self._key is None or self._key.known:
                self.endpoint.redact(last.error)
            if isinstance(last.error, CredentialsError) and self._key is not None:
                self._key.forget()
        return last

    # Requests that are sent as they came: see `Forward`

    def target(self, model: str, dialect: str = "") -> Origin:
        endpoint, name = self.endpoint_for(model)
        endpoint = self._endpoints.get(dialect, endpoint)
        return Origin(endpoint.dialect.name, self.name, endpoint.base_url, name)

    def repairs(self, request: ChatRequest, size: int) -> tuple[Repair, ...]:
        endpoint, asked, card, options = self._fitted(request)
        return self._writers[endpoint.dialect.name].repairs(asked, options, card, size)

    def send(
        self, model: str, body: bytes, *, stream: bool, headers: Mapping[str, str], dialect: str = ""
    ) -> AbstractAsyncContextManager[PushedResponse]:
        endpoint, name = self.endpoint_for(model)
        endpoint = self._endpoints.get(dialect, endpoint)
        path = self._path(endpoint.dialect.name, name, stream=stream)
        note = partial(self.headroom.note, model)
        if self._form == _PLAIN:
            return endpoint.ask("POST", path, body, headers=headers, whole=not stream, note=note)
        return self._forwarded(endpoint, path, body, headers, whole=not stream, note=note)

    @asynccontextmanager
    async def _forwarded(
        self,
        endpoint: Endpoint,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        whole: bool,
        note: NoteHeaders,
    ) -> AsyncGenerator[PushedResponse, None]:
        async with AsyncExitStack() as opened:
            while True:
                sent, _ = fitted_body(self._form, body, headers, self._refusals)
                kept = fitted_headers(self._form, headers, self._refusals)
                asking = endpoint.ask("POST", path, sent, headers=kept, whole=whole, note=note)
                try:
                    answer = await opened.enter_async_context(asking)
                    break
                except InvalidRequestError as error:
                    if not (self._form.learns and self._refusals.learn(error, headers, sent)):
                        raise
            yield plain_response(self._form, answer)

    # Besides chat

    def validate_config(self) -> list[ConfigProblem]:
        return self._problems()

    async def health(self) -> Health:
        return await check_health(self.name, self._probe, self.address)

    async def _probe(self) -> None:
        list_models = services_for(self.endpoint).list_models
        if list_models is not None:
            await list_models(self.endpoint)
            return
        try:
            await self.endpoint.json("GET", "/models")
        except InvalidRequestError as error:
            # Whoever lists no models says so, to those whose key is good: it is looked at first.
            if error.status not in _NO_SUCH_PATH:
                raise

    def _token_counter(self) -> Callable[[ChatRequest], Awaitable[int]] | None:
        """None if none of its dialects can count."""
        for dialect, endpoint in self._endpoints.items():
            count = services_for(endpoint).count_tokens
            if count is not None:
                return partial(self._count_tokens, dialect, count)
        return None

    async def _count_tokens(self, dialect: str, count: CountService, request: ChatRequest) -> int:
        await self._learn(request)
        endpoint, _, plan, *_ = self._prepare(request, dialect)
        return await count(endpoint, plan.origin.model, plan.body)


def _unexpected(name: str, error: Exception) -> ProtocolError:
    why = redact_text(f"{type(error).__name__}: {error}")[:300]
    unexpected = ProtocolError(
        f"Something unexpected happened while {name} was asked: {why}.",
        code="unexpected",
        hint="This is a fault in segue or in what it was given; please report it.",
    )
    unexpected.__cause__ = error
    return unexpected
