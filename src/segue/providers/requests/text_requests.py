"""Requests to a model that lacks something: what it cannot get natively stands in words, in the system prompt.

Tools are offered there, and its calls are text; and the schema of the answer, where nothing holds the model to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from segue.transcript.text_tools.form import offer_of
from segue.transcript.text_tools.json_calls import RECORD
from segue.transcript.text_tools.react import REACT

if TYPE_CHECKING:
    from typing import Any

    from segue.conversation.message import Conversation
    from segue.providers.adapter import ChatRequest, ProviderAdapter
    from segue.transcript.text_tools.form import Form, Offer


def as_text_request(request: ChatRequest, offer: Offer, form: Form) -> ChatRequest:
    """The same request without native tools. Without an offer past calls become a record, and nothing is added."""
    conversation, options = request.conversation, request.options
    if offer.tools:
        conversation = _with_words(conversation, form.instructions(offer))
        options = structs.replace(options, response_schema=None, stop=(*options.stop, *form.stop))
    return structs.replace(
        request,
        conversation=conversation,
        tools=(),
        options=structs.replace(options, tool_choice=None, parallel_calls=None),
        policy=structs.replace(request.policy, text_form=form if offer.tools else RECORD),
    )


def schema_in_words(schema: dict[str, Any]) -> str:
    written = msgspec.json.encode(schema).decode()
    return f"Answer with JSON that follows this schema, and with nothing else: {written}"


def fitted_to_model(request: ChatRequest, provider: ProviderAdapter) -> ChatRequest:
    """The same request; what its model lacks, as far as its provider knows, stands in words."""
    if request.tools and not provider.takes_tools(request.model):
        return as_text_request(request, offer_of(request.tools, request.options), REACT)
    schema = request.options.response_schema
    if schema is None or provider.takes_schema(request):
        return request
    words = schema_in_words(schema)
    return structs.replace(request, conversation=_with_words(request.conversation, words))


def _with_words(conversation: Conversation, words: str) -> Conversation:
    system = f"{conversation.system}\n\n{words}" if conversation.system else words
    return structs.replace(conversation, system=system)
