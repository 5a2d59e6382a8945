"""Requests to a model that lacks something: what it cannot get natively stands in words, in the system prompt.

Tools are offered there, and its calls are text; and the schema of the answer, where nothing holds the model to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from segue.errors import SegueError
from segue.transcript.text_tools.json_calls import RECORD

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


def takes_schema(provider: ProviderAdapter, request: ChatRequest) -> bool:
    """Whether the schema of the answer reaches the model: found by making the request that it would get."""
    preview = provider.capabilities.preview
    if preview is None:
        return False
    try:
        repairs = preview(request).repairs
    except SegueError:  # the request itself will fail, with a remedy of its own
        return True
    return not any(
        repair.kind == "option_not_sent" and repair.path.endswith("response_schema") for repair in repairs
    )


def schema_in_words(schema: dict[str, Any]) -> str:
    written = msgspec.json.encode(schema).decode()
    return f"Answer with JSON that follows this schema, and with nothing else: {written}"


def with_schema_in_words(request: ChatRequest, provider: ProviderAdapter) -> ChatRequest:
    """The same request; a schema that its provider does not take stands in the system prompt, too."""
    schema = request.options.response_schema
    if schema is None or takes_schema(provider, request):
        return request
    words = schema_in_words(schema)
    return structs.replace(request, conversation=_with_words(request.conversation, words))


def _with_words(conversation: Conversation, words: str) -> Conversation:
    system = f"{conversation.system}\n\n{words}" if conversation.system else words
    return structs.replace(conversation, system=system)
