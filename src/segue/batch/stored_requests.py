"""Requests of a batch as a provider takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from segue.conversation.document import conversation_in, read_document
from segue.providers.adapter import ChatRequest
from segue.providers.requests.text_requests import fitted_to_model
from segue.routing.route import provider_of

if TYPE_CHECKING:
    from segue.batch.lines import BatchRequest
    from segue.batch.state_file import StoredRequest
    from segue.conversation.interaction import Ledger
    from segue.conversation.message import Conversation
    from segue.providers.adapter import Providers
    from segue.routing.route import Route


def document_of(stored: StoredRequest) -> tuple[Conversation, Ledger | None]:
    return conversation_in(read_document(msgspec.json.decode(stored.document)))


def chat_request(one: BatchRequest | StoredRequest, route: Route, providers: Providers) -> ChatRequest:
    """The request for the model; what that lacks stands in words."""
    if hasattr(one, "document"):
        document = read_document(msgspec.json.decode(one.document))
        conversation, ledger = conversation_in(document)
        tools, options = document.tools, document.options
    else:
        conversation, ledger, tools, options = one.conversation, one.ledger, one.tools, one.options
    request = ChatRequest(
        model=route.model,
        conversation=conversation,
        ledger=ledger,
        tools=tools,
        options=options.over(route.options),
        context=route.context,
    )
    return fitted_to_model(request, provider_of(route, providers))
