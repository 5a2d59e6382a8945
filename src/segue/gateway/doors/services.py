"""What the doors offer besides replies: models, token counts, embeddings, versions; and explanations."""

from __future__ import annotations

from importlib.metadata import version
from secrets import token_hex
from time import time
from typing import TYPE_CHECKING, Any, Final, final

import msgspec

from segue.conversation.events import Finished, UsageReported
from segue.conversation.usage import Usage
from segue.dialects.registry import DIALECTS, proper_name
from segue.dialects.server_side import stored_replies as stored
from segue.errors import InvalidRequestError, SegueError, UsageError
from segue.exchange.handovers import Handover
from segue.gateway.conversations.turns import model_of, read_fields
from segue.gateway.doors.model_lists import ProviderModels
from segue.gateway.doors.paths import Door
from segue.gateway.doors.plain_services import PlainServices
from segue.gateway.exchanges.usage_estimates import mark_estimate, tokens_of
from segue.gateway.requests.client_errors import model_error
from segue.gateway.requests.web import JSON_TYPE, WebResponse
from segue.gateway.stored_objects.cached_contents import CachedContentService
from segue.gateway.telemetry.report import AttemptReport
from segue.providers.token_counts import estimate_request, family_of
from segue.routing.route import provider_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.dialects.server_side.wire_server import ServedModel
    from segue.gateway.accounts.account import Account
    from segue.gateway.conversations.reader import TurnReader
    from segue.gateway.conversations.turns import ClientTurn
    from segue.gateway.doors.paths import Doors
    from segue.gateway.exchanges.compaction import ClientCompaction
    from segue.gateway.exchanges.members import Members
    from segue.gateway.names import ModelNames
    from segue.gateway.requests.web import WebRequest
    from segue.gateway.stored_objects.background_replies import BackgroundReplies
    from segue.gateway.stored_objects.cached_contents import HeldContents
    from segue.gateway.stored_objects.conversation_objects import ConversationObjects
    from segue.gateway.telemetry.report import RequestReport
    from segue.providers.registry import KnownProviders
    from segue.routing.route import Route

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
        reader: TurnReader,
        compactor: ClientCompaction,
        background: BackgroundReplies,
        objects: ConversationObjects,
        contents: HeldContents,
    ) -> None:
        self._names = names
        self._members = members
        self._providers = providers
        self._reader = reader
        self._compactor = compactor
        self._background = background
        self._objects = objects
        self._contents = CachedContentService(contents, names, members, providers, reader)
        self._plain = PlainServices(names, providers)
        self._provider_models = ProviderModels(providers) if members.lists_models else None

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
            case "embed" | "complete" | "moderate":
                serve = self._embed if door.operation == "embed" else self._plain.answer
                return await serve(door, request, account, report)
            case "compact":
                return await self._compact(door, request, caller, report)
            case "cache_content" | "cached_content":
                return await self._contents.answer(door, request, caller, report)
            case "get_reply" | "delete_reply" | "cancel_reply" | "list_input" | "conversation":
                keeper = self._objects if door.operation == "conversation" else self._background
                return await keeper.answer(door, request, caller)
            case "version" | "hello":
                return _version() if door.operation == "version" else _HELLO
            case "refuse":
                raise InvalidRequestError(
                    f"{request.path} is held by the provider of this API, and is not served here.",
                    code="not_found",
                    status=404,
                    hint="Send all messages to the chat endpoint instead.",
                )
            case _:
                raise InvalidRequestError(
                    f"{request.method} {request.path} is not served here.", code="not_found", status=404
                )

    async def _compact(
        self, door: Door, request: WebRequest, caller: str, report: RequestReport
    ) -> WebResponse:
        turn = await self._reader.read(door, request, read_fields(request.body), caller)
        summary, item = await self._compactor.compact(turn, report, await self._reader.switched(turn))
        usage = {"input": summary.usage.input_tokens or 0, "output": summary.usage.output_tokens or 0}
        return _json(stored.encode_compaction(turn.fields, token_hex(24), item, int(time()), usage))

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
        turn = await self._reader.read(door, request, body, caller)
        switched = await self._reader.switched(turn)
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

    async def _embed(
        self, door: Door, request: WebRequest, account: Account, report: RequestReport
    ) -> WebResponse:
        del account  # it was checked with the costs
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
        turn = await self._reader.read(door, request, fields, caller)
        named = request.query.get("to", "")
        self._check(named or turn.asked, account)
        to = named or await self._reader.switched(turn) or turn.asked
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


_HELLO: Final = WebResponse(headers={"content-type": "text/plain"}, body=b"")


def _version() -> WebResponse:
    return _json(msgspec.json.encode({"version": version("segue-llm")}))


def _json(body: bytes, headers: Mapping[str, str] | None = None) -> WebResponse:
    return WebResponse(headers={"content-type": JSON_TYPE, **(headers or {})}, body=body)


def _no_count(route: Route) -> InvalidRequestError:
    return InvalidRequestError(
        f"{route.provider} counts no tokens, and a wrong number would be worse than none.",
        code="no_token_count",
        status=404,
        hint=f"For an estimate send the header {ESTIMATE}: true.",
    )
