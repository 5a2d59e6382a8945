"""Whole replies of the Responses wire as its server writes them, and the items that they are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.conversation.blocks import Code, Media, Reasoning, Text, ToolCall
from segue.conversation.events import parse_arguments
from segue.conversation.tools import CUSTOM_INPUT, ToolSpec
from segue.dialects.openai_responses import wire
from segue.dialects.openai_responses.errors import encode_error
from segue.dialects.openai_responses.reply import INCOMPLETE, REFUSED
from segue.dialects.openai_responses.rules import NAME
from segue.dialects.replies.citations import natives, url_annotation
from segue.dialects.requests.opaque_blocks import opaque_block
from segue.transcript.blocks.citations import place_in
from segue.transcript.blocks.media import describe, written_out
from segue.transcript.blocks.value_text import arguments_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from msgspec import Raw

    from segue.conversation.blocks import Block, Citation
    from segue.conversation.events import FinishReason, Reply
    from segue.conversation.usage import Usage


def encode_reply(reply: Reply) -> bytes:
    if reply.error is not None:
        return encode_error(reply.error)[1]
    refused = reply.raw_finish == REFUSED
    tools = {tool.name: tool for tool in reply.tools}
    output = [
        item
        for index, block in enumerate(reply.message.blocks)
        if (item := _encode_block(block, item_id(reply.id, index), tools, refused=refused)) is not None
    ]
    status, details = status_of(reply.finish, reply.raw_finish)
    return wire.ENCODER.encode(
        response_object(
            reply.id,
            reply.model,
            status=status,
            created=reply.created,
            details=details,
            output=output,
            usage=reply.usage,
            repeated=reply.repeated,
        )
    )


def item_id(reply_id: str, index: int) -> str:
    """Part of an id that is unique among all replies, as long as theirs are."""
    return f"{reply_id.removeprefix('resp_')}_{index}"


def status_of(finish: FinishReason, raw: str) -> tuple[str, dict[str, str] | None]:
    """The status of a response that ended so, and the details if it is incomplete."""
    if finish == "cancelled":
        return "cancelled", None
    if finish == "length":
        return "incomplete", {"reason": raw if INCOMPLETE.get(raw) == "length" else "max_output_tokens"}
    if finish == "content_filter" and raw != REFUSED:
        return "incomplete", {"reason": "content_filter"}
    return "completed", None


def _encode_block(
    block: Block, own: str, tools: Mapping[str, ToolSpec], *, refused: bool
) -> dict[str, Any] | Raw | None:
    match block:
        case Text(text):
            said = text or block.citations
            return opaque_block(block) or (
                message_item(own, text, refused=refused, cited=annotations_of(block)) if said else None
            )
        case Reasoning(thought, seal):
            return reasoning_item(own, thought, seal.payload if seal is not None else "")
        case ToolCall():
            raw = block.raw or arguments_of(block)[0]
            tool = tools.get(block.name) or ToolSpec(block.name)
            return call_item(own, block.native_id or block.id, tool, raw)
        case Media(kind="image") if block.data:
            return image_item(own, block)
        case Media():
            return message_item(own, describe(block).text)
        case Code():
            return message_item(own, written_out(block).text)
        case _:  # a result is never part of a reply
            return None


def annotations_of(block: Text) -> list[dict[str, Any]]:
    return [annotation_of(citation, block.text) for citation in block.citations if is_written(citation)]


def is_written(citation: Citation) -> bool:
    """Whether it has a form on this wire: one that came on it, or a web address."""
    return bool(citation.url or (citation.native and citation.dialect == NAME))


def annotation_of(citation: Citation, text: str) -> dict[str, Any]:
    own = natives([citation], NAME)
    return own[0] if own else {"type": "url_citation", **url_annotation(citation, *place_in(text, citation))}


def message_item(
    own: str,
    text: str,
    *,
    refused: bool = False,
    status: str = "completed",
    cited: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": [*cited], "logprobs": []}
    if refused:
        part = {"type": "refusal", "refusal": text}
    content = [part] if text or cited else []
    return {"type": "message", "id": f"msg_{own}", "status": status, "role": "assistant", "content": content}


def reasoning_item(own: str, thought: str, sealed: str) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": thought}] if thought else []
    item: dict[str, Any] = {"type": "reasoning", "id": f"rs_{own}", "summary": summary}
    return {**item, "encrypted_content": sealed} if sealed else item


def image_item(own: str, image: Media | None) -> dict[str, Any]:
    item: dict[str, Any] = {"type": "image_generation_call", "id": f"ig_{own}"}
    if image is None:
        return {**item, "status": "in_progress", "result": None}
    form = image.mime.partition("/")[2] or "png"
    return {**item, "status": "completed", "output_format": form, "result": image.data}


def call_item(
    own: str, call_id: str, tool: ToolSpec, arguments: str, status: str = "completed"
) -> dict[str, Any]:
    """A call as the client offered its tool: by its name in a namespace, and of a custom tool with the bare text."""
    custom = tool.kind == "custom"
    item: dict[str, Any] = {
        "type": "custom_tool_call" if custom else "function_call",
        "id": f"ctc_{own}" if custom else f"fc_{own}",
        "status": status,
        "call_id": call_id,
        "name": tool.local_name or tool.name,
    }
    if tool.namespace:
        item["namespace"] = tool.namespace
    item["input" if custom else "arguments"] = custom_input(arguments) if custom else arguments
    return item


def custom_input(arguments: str) -> str:
    """The text for a custom tool. Models that know only functions wrap it as they were asked to, or they do not."""
    given = parse_arguments(arguments)
    text = given.get(CUSTOM_INPUT) if given is not None and len(given) == 1 else None
    return text if isinstance(text, str) else arguments


def response_object(
    reply_id: str,
    model: str,
    *,
    status: str,
    repeated: Mapping[str, Any],
    created: float = 0.0,
    details: dict[str, str] | None = None,
    output: list[Any] | None = None,
    usage: Usage | None = None,
) -> dict[str, Any]:
    """`repeated`: what it shows of its request."""
    return {
        "id": reply_id,
        "object": "response",
        "created_at": int(created),
        "status": status,
        "error": None,
        "incomplete_details": details,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": output or [],
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "store": False,
        **repeated,
        "usage": _counts_of(usage) if usage is not None else None,
    }


def _counts_of(usage: Usage) -> dict[str, Any] | None:
    if usage.total_tokens is None:
        return None
    # Clients read the details without asking whether they are there.
    return {
        "input_tokens": usage.input_tokens,  # null: not known
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens or 0,
            "cache_write_tokens": usage.cache_write_tokens or 0,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": usage.total_tokens,
    }
