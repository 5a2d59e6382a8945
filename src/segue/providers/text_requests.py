"""A request to a model without native tools: they are offered in the system prompt, and its calls are text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from segue.transcript.text_tools.json_calls import RECORD

if TYPE_CHECKING:
    from segue.providers.adapter import ChatRequest
    from segue.transcript.text_tools.form import Form, Offer


def as_text_request(request: ChatRequest, offer: Offer, form: Form) -> ChatRequest:
    """The same request without native tools. Without an offer past calls become a record, and nothing is added."""
    conversation, options = request.conversation, request.options
    if offer.tools:
        instructions = form.instructions(offer)
        system = f"{conversation.system}\n\n{instructions}" if conversation.system else instructions
        conversation = structs.replace(conversation, system=system)
        options = structs.replace(options, response_schema=None, stop=(*options.stop, *form.stop))
    return structs.replace(
        request,
        conversation=conversation,
        tools=(),
        options=structs.replace(options, tool_choice=None, parallel_calls=None),
        policy=structs.replace(request.policy, text_form=form if offer.tools else RECORD),
    )
