"""What the doors offer besides replies: models, token counts, embeddings, versions; and explanations."""

from __future__ import annotations

import logging
from functools import partial
from importlib.metadata import version
from secrets import token_hex
from time import time
from typing import TYPE_CHECKING, Any, Final, final

import msgspec

from segue.cache_budget import CacheBudget
from segue.conversation.blocks import Origin
from segue.conversation.events import Finished, UsageReported, fold
from segue.conversation.usage import Usage
from segue.dialects import stored_replies as stored
from segue.dialects.registry import DIALECTS, proper_name
from segue.errors import InvalidRequestError, SegueError, TranscriptError, UsageError
from segue.exchange.handovers import Handover
from segue.gateway.archive import ReplyArchive
from segue.gateway.background import BackgroundReplies
from segue.gateway.client_errors import model_error
from segue.gateway.client_requests import RequestReader
from segue.gateway.compaction import ClientCompaction, compacted_events
from segue.gateway.doors import Door
from segue.gateway.large_bodies import read_beside
from segue.gateway.model_lists import ProviderModels
from segue.gateway.references import ReferenceResolver
from segue.gateway.report import AttemptReport
from segue.gateway.request_body import too_many_messages
from segue.gateway.turns import PreparedRequest, model_of, read_fields, read_turn, unread_turn
from segue.gateway.usage_estimates import mark_estimate, tokens_of
from segue.gateway.web import JSON_TYPE, WebResponse
from segue.providers.token_estimates import estimate_request, family_of
from segue.routing.route import provider_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from segue.dialects.server import ServedModel
    from segue.gateway.accounts.account import Account
    from segue.gateway.byte_budget import ByteBudget
    from segue.gateway.doors import Doors
    from segue.gateway.members import Members
    from segue.gateway.memory.memory import Memory
    from segue.gateway.names import ModelNames
    from segue.gateway.report import RequestReport
    from segue.gateway.turns import ClientTurn, PreparedRequest
    from segue.gateway.web import WebRequest
    from segue.providers.registry import KnownProviders
    from segue.routing.route import Route

_LOG: Final = logging.getLogger("segue.gateway")
_LOAD_BYTES: Final = 4096
"""A request that only has a model loaded is not larger."""
ESTIMATE: Final = "x-segue-estimate"
"""The header by which a client accepts an estimated count."""


@final
class ClientServices:
    """One method for each operation that is no reply."""

    def __init__(
        self,
        names: ModelNames,
        members: Members,
        providers: KnownProviders,
        memory: Memory,
        budget: ByteBudget,
    ) -> None:
        self._names = names
        self._members = members
        self._providers = providers
        self._memory = memory
        self._archive = ReplyArchive(memory)
        self.background = BackgroundReplies(self._archive, members.limits, budget)
        self._requests = RequestReader(names.writer, most_messages=members.limits.messages)
        self._warm = CacheBudget(members.limits.warm_bytes)
        self._warm.share(
            requests=self._requests.cache,
            tools=self._requests.cache.tools,
            histories=memory.histories,
            replies=memory.at_hand,
            plans=members.plans,
            conversations=memory.recent,
        )
        self._compactor = ClientCompaction(members, providers, memory)
        self._references = ReferenceResolver(self._archive, self._compactor, memory)
        self._provider_models = ProviderModels(providers) if members.lists_models else None

    async def compacted(self, turn: ClientTurn, report: RequestReport, switched: str) -> WebResponse | None:
        """The compacted conversation that a chat asks for; None if it asks for none, or the provider makes it itself."""
        if not turn.prepared.asks_for_compaction:
            return None
        answering = self._names.router(switched or turn.asked).routes[0]
        if not turn.changed and self._members.is_native(turn, answering):
            return None
        summary = await self._compactor.summarise(turn, report, switched)
        item = stored.compacted_item(token_hex(16), self._compactor.capsule(turn.caller, summary))
        events = compacted_events(item, f"resp_{token_hex(24)}", turn, summary)
        dialect = turn.dialect
        if not turn.stream:
            return _json(dialect.encode_reply(fold(events, Origin(dialect.name, model=turn.asked))))
        encoder = dialect.new_encoder(turn.asked)
        body = b"".join(map(encoder.feed, events)) + encoder.close()
        return WebResponse(headers={"content-type": dialect.server.stream_type}, body=body)

    async def _compact(
        self, door: Door, request: WebRequest, caller: str, report: RequestReport
    ) -> WebResponse:
        fields = read_fields(request.body)
        prepared = await self._references.resolve(door, fields, caller)
        turn = await self.read(door, request, prepared, caller)
        switched = await self.switched(turn)
        summary = await self._compactor.summarise(turn, report, switched)
        item = stored.compacted_item(token_hex(16), self._compactor.capsule(caller, summary))
        usage = {"input": summary.usage.input_tokens or 0, "output": summary.usage.output_tokens or 0}
        return _json(stored.encode_compaction(prepared.fields, token_hex(24), item, int(time()), usage))

    async def read_chat(self, door: Door, request: WebRequest, caller: str) -> ClientTurn:
        """A request for a reply."""
        read = await read_beside(request.weight, partial(self._requests.read, door, request, caller))
        known = None if read is None else await self._references.read_before(door, request.body, read)
        if known is None:
            prepared = await self._references.resolve(door, read_fields(request.body), caller)
            try:
                return await self.read(door, request, prepared, caller)
            except TranscriptError as error:
                if prepared.changed:
                    raise
                return unread_turn(door, request, prepared, error, caller=caller, memory=self._memory)
        writer = self._writer(door, known)
        return await read_turn(
            door, request, known, caller=caller, memory=self._memory, writer=writer, read=read
        )

    async def read(
        self, door: Door, request: WebRequest, prepared: PreparedRequest, caller: str
    ) -> ClientTurn:
        messages, most = prepared.fields.get(door.dialect.messages_field), self._members.limits.messages
        if isinstance(messages, list) and len(messages) > most:  # with those that it continues
            raise too_many_messages(most)
        return await read_turn(
            door,
            request,
            prepared,
            caller=caller,
            memory=self._memory,
            writer=self._writer(door, prepared),
        )

    def _writer(self, door: Door, prepared: PreparedRequest) -> Origin:
        return self._names.writer(model_of(door, prepared.fields), door.dialect.name)

    async def switched(self, turn: ClientTurn) -> str:
        """The model that an operator chose for the conversation; empty if none was, or it is no longer configured. It is none
        for a turn that goes on with calls of a model that we do not know: only the client's own name can mean that."""
        unknown = turn.begins or (turn.continues and not turn.bound)
        chosen = "" if unknown else await self._memory.switched(turn.caller, turn.conversation_id)
        if chosen and not self._names.is_known(chosen):
            _LOG.warning("%s was switched to %s, which is not known.", turn.conversation_id, chosen)
            return ""
        return chosen

    def warm_bytes(self) -> dict[str, int]:
        """What is kept for the next requests of conversations, by its kind."""
        return {**self._warm.by_kind(), "large_requests": self._requests.large.budget.held}

    def keep(self, turn: ClientTurn, body: bytes, provider: str) -> Awaitable[None]:
        """Keep a reply that its client may ask for by its id."""
        return self._archive.keep(turn, body, provider)

    async def answer(
        self, door: Door, request: WebRequest, account: Account, report: RequestReport
    ) -> WebResponse:
        """`report` gets what a model used for it."""
        caller = account.name
        match door.operation:
            case "list_models":
                return _json(door.dialect.server.encode_models(await self._listed(account), request.query))
            case "show_model":
                return self._show_model(door, request, account)
            case "count_tokens":
                return await self._count(door, request, caller)
            case "embed":
                return await self._embed(door, request, report)
            case "compact":
                return await self._compact(door, request, caller, report)
            case "get_reply" | "delete_reply" | "cancel_reply" | "list_input":
                return await self.background.answer(door, request, caller)
            case "version":
                return _json(msgspec.json.encode({"version": version("segue-llm")}))
            case "hello":
                return WebResponse(headers={"content-type": "text/plain"}, body=b"")
            case _:
                raise InvalidRequestError(
                    f"{request.method} {request.path} is not served here.", code="not_found", status=404
                )

    async def _listed(self, account: Account) -> list[ServedModel]:
        """The names of the configuration, then what the providers report: those that the caller may use."""
        served = self._names.served()
        known = {model.id for model in served}
        shown = [model for model in served if account.may_use(model.id, self._names.led_to(model.id))]
        if self._provider_models is None:
            return shown
        reported = [model for model in await self._provider_models.models() if model.id not in known]
        return [*shown, *(model for model in reported if account.may_use(model.id, (model.id,)))]

    async def close(self) -> None:
        await self.background.close()
        if self._provider_models is not None:
            await self._provider_models.close()

    def _show_model(self, door: Door, request: WebRequest, account: Account) -> WebResponse:
        name = door.params.get("model", "")
        if not name and request.body:
            fields = read_fields(request.body)
            name = str(fields.get("model") or fields.get("name") or "")
        self._check(name, account)
        return _json(door.dialect.server.encode_model(self._names.served_model(name)))

    def _check(self, name: str, account: Account) -> None:
        """Raises if there is no such model, or not for this caller."""
        if not account.may_use(name, self._names.led_to(name)):
            raise model_error(account, name)

    def loaded(self, door: Door, request: WebRequest, account: Account) -> WebResponse | None:
        """The answer to a client that only has its model loaded: no model is asked. None if it wants a reply."""
        encode = door.dialect.server.encode_loaded
        if encode is None or len(request.body) > _LOAD_BYTES:
            return None
        fields = read_fields(request.body)
        answered = encode(door.operation, fields, time())
        if answered is None:
            return None
        self._check(model_of(door, fields), account)
        return _json(answered)

    async def _count(self, door: Door, request: WebRequest, caller: str) -> WebResponse:
        """The provider's own count. A wrong one is worse than none: clients plan by it."""
        server = door.dialect.server
        fields = read_fields(request.body)
        field = server.model_field
        body = {**server.chat_request(fields), **({field: fields[field]} if field in fields else {})}
        prepared = await self._references.resolve(door, body, caller)
        turn = await self.read(door, request, prepared, caller)
        switched = await self.switched(turn)
        router = self._names.router(switched or turn.asked)
        names = [route.name for route in router.routes]
        last = turn.bound or turn.last_route
        route = router.routes[names.index(last)] if last in names else router.routes[0]
        provider = provider_of(route, self._providers)
        chat = self._members.request(turn, route)
        self._members.require_whole(turn, provider, chat)
        if server.encode_count is None:
            raise _no_count(route)
        if provider.capabilities.count_tokens is not None:
            tokens = await provider.capabilities.count_tokens(chat)
            return _json(server.encode_count(tokens), {"x-segue-count": "provider"})
        if request.headers.get(ESTIMATE, "").lower() not in ("1", "true", "yes"):
            raise _no_count(route)
        tokens = estimate_request(chat, family_of(route.model))
        return _json(server.encode_count(tokens), {"x-segue-count": "estimate"})

    async def _embed(self, door: Door, request: WebRequest, report: RequestReport) -> WebResponse:
        server = door.dialect.server
        fields = read_fields(request.body)
        if server.decode_embedding is None or server.encode_embeddings is None:
            raise InvalidRequestError("This API has no embeddings.", code="not_found", status=404)
        asked = model_of(door, fields)
        wanted = server.decode_embedding(fields)
        # Vectors of two models cannot be compared: nobody else answers instead.
        route = self._names.router(asked).routes[0]
        embed = provider_of(route, self._providers).capabilities.embed
        if embed is None:
            raise InvalidRequestError(
                f"{route.provider} has no embeddings.",
                code="no_embeddings",
                status=404,
                hint="Map the name to a model that has: gateway.models.",
            )
        report.route = route.name
        tried = AttemptReport(route=route.name, began=time())
        report.tries.append(tried)
        handover = Handover(
            route.name, route.model, lambda: tokens_of(wanted.texts, route.model), size=len(request.body)
        )
        tried.handovers.append(handover)
        counted: list[int] = []
        try:
            vectors = await embed(
                wanted.texts,
                model=route.model,
                dimensions=wanted.dimensions,
                on_counted=counted.append,
            )
        except SegueError as error:
            handover.fail(error)
            raise
        finally:
            tried.seconds = time() - tried.began
        handover.note([*(UsageReported(Usage(tokens, 0)) for tokens in counted), Finished("stop")])
        headers = {"x-segue-route": route.name}
        if handover.estimated:
            mark_estimate(headers)
        tokens = handover.usage.input_tokens or 0
        return _json(server.encode_embeddings(wanted, vectors, model=asked, tokens=tokens), headers)

    async def explain(self, request: WebRequest, account: Account, doors: Doors) -> WebResponse:
        """What a target would get of a request, without sending it. Raises if the caller may not use the target."""
        fields, caller = read_fields(request.body), account.name
        wire = request.query.get("wire", "") or doors.recognise(request, fields)
        if not wire:
            raise UsageError(
                "The wire format of this request is not recognised.",
                code="unknown_dialect",
                hint="Name it: ?wire=anthropic.",
            )
        door = Door(dialect=DIALECTS[proper_name(wire)], operation="chat", params=dict(request.query))
        turn = await self.read(door, request, await self._references.resolve(door, fields, caller), caller)
        named = request.query.get("to", "")
        self._check(named or turn.asked, account)
        to = named or await self.switched(turn) or turn.asked
        explained = [self._explained(turn, route) for route in self._names.router(to).routes]
        return _json(
            msgspec.json.encode(
                {
                    "wire": door.dialect.name,
                    "to": to,
                    "conversation": turn.conversation_id,
                    "turn_stays_with": turn.bound or None,
                    "adopted": [repair.as_dict() for repair in turn.repairs],
                    "routes": explained,
                }
            )
        )

    def _explained(self, turn: ClientTurn, route: Route) -> dict[str, Any]:
        try:
            provider = provider_of(route, self._providers)
            attempt = self._members.attempt(turn, route)
            if attempt.forwarded:
                wire, body, repairs = attempt.origin.dialect, turn.request.body, attempt.repairs
            else:
                preview = provider.capabilities.preview
                if preview is None:
                    return {"route": route.name, "error": {"message": "This provider shows no requests."}}
                sent = preview(self._members.request(turn, route))
                wire, body, repairs = sent.origin.dialect, sent.body, (*turn.repairs, *sent.repairs)
        except SegueError as error:
            return {"route": route.name, "error": error.as_dict()}
        return {
            "route": route.name,
            "wire": wire,
            "forwarded": attempt.forwarded,
            "request": msgspec.Raw(body),
            "repairs": [repair.as_dict() for repair in repairs],
            "losses": [repair.as_dict() for repair in repairs if repair.lossy],
        }


def _json(body: bytes, headers: Mapping[str, str] | None = None) -> WebResponse:
    return WebResponse(headers={"content-type": JSON_TYPE, **(headers or {})}, body=body)


def _no_count(route: Route) -> InvalidRequestError:
    return InvalidRequestError(
        f"{route.provider} counts no tokens, and a wrong number would be worse than none.",
        code="no_token_count",
        status=404,
        hint=f"For an estimate send the header {ESTIMATE}: true.",
    )
