"""The operator's part of the gateway: which conversations run, and a change of model for one of them.

GET  /segue/v1/conversations                    those used last come first
GET  /segue/v1/conversations/{id}
GET  /segue/v1/conversations/{id}/document      its messages, while this process holds them; without thoughts
GET  /metrics                                   for Prometheus, where it is switched on
POST /segue/v1/conversations/{id}/switch        {"model": "provider/model"}; an empty name takes it back; with "session": true
                                                all conversations of its session, and those that begin in it later
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final, final

import msgspec

from segue.config.model_names import resolve_model, usable_offers
from segue.config.resources import require_provider
from segue.errors import InvalidRequestError, UsageError
from segue.gateway.accounts.administration import require_operator
from segue.gateway.memory.store import ConversationInfo
from segue.gateway.requests.client_errors import model_error
from segue.gateway.requests.web import WebRequest, WebResponse, json_response
from segue.gateway.telemetry.metrics import CONTENT_TYPE
from segue.interop.convert import write_request
from segue.interop.source import CONVERSATION, SourceRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from segue.config.schema import Config
    from segue.gateway.accounts.account import Account
    from segue.gateway.memory.recent import RecentConversations
    from segue.gateway.memory.store import GatewayStore
    from segue.providers.registry import KnownProviders

CONVERSATIONS: Final = "/segue/v1/conversations"
_ONE: Final = re.compile(rf"{CONVERSATIONS}/([^/]+)(/switch|/document)?")
_SWITCH: Final = "/switch"
_DOCUMENT: Final = "/document"
METRICS: Final = "/metrics"
_MOST: Final = 1000


class _SwitchRequest(msgspec.Struct, forbid_unknown_fields=True):
    model: str
    session: bool = False


def checked_model(name: str, config: Config, providers: KnownProviders) -> str:
    """The name, with its provider if it had none. Raises UsageError if it leads nowhere. An empty one takes a switch back."""
    if not name:
        return ""
    try:
        choice = resolve_model(name, config)
    except UsageError:
        usable = usable_offers(name, config, providers)
        if not usable:
            raise
        name = usable[0]
        choice = resolve_model(name, config)
    for route in choice.routes:
        require_provider(route.provider, providers)
    return name


def open_control(
    config: Config,
    providers: KnownProviders,
    store: GatewayStore,
    metrics: Callable[[], bytes] | None,
    recent: RecentConversations,
) -> Callable[[WebRequest, Account], Awaitable[WebResponse | None]]:
    """Answers an operator's request; None if it has no such path. A caller sees, switches and takes its own conversations, an
    operator those of all."""

    async def control(request: WebRequest, account: Account) -> WebResponse | None:
        caller = account.name
        if request.path == METRICS and metrics is not None and request.method == "GET":
            require_operator(account)
            return WebResponse(headers={"content-type": CONTENT_TYPE}, body=metrics())
        if request.path == CONVERSATIONS and request.method == "GET":
            return json_response({"conversations": await store.conversations(_limit(request), caller)})
        found = _ONE.fullmatch(request.path)
        if found is None or request.method != ("POST" if found[2] == _SWITCH else "GET"):
            return None
        info = await store.conversation(found[1])
        if info is None or (info.caller != caller and not account.admin):
            raise _unknown(found[1])
        if found[2] == _DOCUMENT:
            return await asyncio.to_thread(_document, info, recent)
        if found[2] == _SWITCH:
            wanted = _switch_in(request)
            try:
                model = checked_model(wanted.model, config, providers)
            except UsageError as error:
                raise InvalidRequestError(
                    error.message, code=error.code, path="model", status=400, hint=error.hint
                ) from error
            if model and not account.may_use(model, [r.name for r in resolve_model(model, config).routes]):
                raise model_error(account, model)
            if wanted.session:
                await switch_session(store, info, model)
            elif not await store.switch(info.id, model, info.caller):
                raise _unknown(found[1])
            info = await store.conversation(info.id)
        return json_response(info)

    return control


@final
class ConversationDocument(msgspec.Struct, frozen=True):
    """A conversation as it is taken elsewhere."""

    conversation: ConversationInfo
    document: msgspec.Raw
    """In our own form, as `segue convert --to conversation` writes it."""
    whole: bool
    """False if a provider holds its beginning."""
    thoughts: int
    """So many are left out."""


def _document(info: ConversationInfo, recent: RecentConversations) -> WebResponse:
    held = recent.get((info.caller, info.id))
    if held is None:
        raise InvalidRequestError(
            f'The gateway does not hold the messages of "{info.id}".',
            code="not_held",
            status=404,
            hint="It holds those of recent conversations until it is restarted, each worker its own, and never writes them to a file. "
            "Move the session that the client itself keeps, or try again after its next turn.",
        )
    conversation, thoughts = held.shown()
    source = SourceRequest(dialect="", messages=conversation.messages, conversation=conversation)
    document = msgspec.Raw(write_request(source, to=CONVERSATION).body)
    return json_response(ConversationDocument(info, document, held.whole, thoughts))


async def switch_session(store: GatewayStore, info: ConversationInfo, model: str) -> None:
    """Switch all conversations of the session that this one is a part of. Raises if its client names none."""
    if not info.session:
        raise InvalidRequestError(
            f'The client of "{info.id}" names no session.',
            code="no_session",
            status=400,
            hint="Switch the conversation itself, without --session.",
        )
    await store.switch_session(info.session, model, info.caller)


def _switch_in(request: WebRequest) -> _SwitchRequest:
    try:
        return msgspec.json.decode(request.body, type=_SwitchRequest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequestError(
            'The body must be {"model": "provider/model"}.', code="bad_switch", status=400
        ) from error


def _limit(request: WebRequest) -> int:
    asked = request.query.get("limit", "")
    return min(max(int(asked[:9]), 1), _MOST) if asked.isascii() and asked.isdigit() else 50


def _unknown(conversation: str) -> InvalidRequestError:
    return InvalidRequestError(
        f'There is no conversation "{conversation}".',
        code="unknown_conversation",
        status=404,
        hint="List them: segue gateway ps",
    )
