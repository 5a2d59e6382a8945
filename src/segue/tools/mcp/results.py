"""The result of an MCP call as the output of a tool."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from segue.conversation.blocks import Media
from segue.conversation.json_safe import encodable
from segue.tools.definition import Output
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock


def output_of_result(result: CallToolResult) -> Output:
    """Texts as one text, pictures and sounds as media; structured data that no text holds follows."""
    texts: list[str] = []
    media: list[Media] = []
    for block in result.content:
        content = _content_of(block)
        if isinstance(content, Media):
            media.append(content)
        else:
            texts.append(encodable(content))
    text = "\n".join(texts)
    if result.is_error:
        return Output(media=tuple(media), error=text or "The tool failed without a message.")
    if result.structured_content is None or _texts_hold(texts, result.structured_content):
        return Output(text, tuple(media))
    data = json_of(result.structured_content)
    return Output(f"{text}\n\n{data}" if text else result.structured_content, tuple(media))


def _content_of(block: ContentBlock) -> str | Media:
    if block.type == "text":
        return block.text
    if block.type == "image":
        return Media("image", block.mime_type, block.data)
    if block.type == "audio":
        return Media("audio", block.mime_type, block.data)
    if block.type == "resource_link":
        parts = (block.title or block.name, f"<{block.uri}>", block.mime_type, block.description)
        return " ".join(part for part in parts if part)
    return _resource(block.resource)


def _resource(resource: Any) -> str | Media:
    text = getattr(resource, "text", None)
    if isinstance(text, str):
        return text
    mime = resource.mime_type or "application/octet-stream"
    name = str(resource.uri).rpartition("/")[2]
    if mime.startswith("image/"):
        return Media("image", mime, resource.blob, name=name)
    if mime.startswith("audio/"):
        return Media("audio", mime, resource.blob, name=name)
    if mime == "application/pdf":
        return Media("document", mime, resource.blob, name=name)
    return f"<{resource.uri}> {mime}, {len(resource.blob) * 3 // 4} bytes"


def _texts_hold(texts: list[str], data: Any) -> bool:
    """Whether the texts hold the data already: most servers send both, a list as one text for each of its members."""
    bare = next(iter(data.values())) if isinstance(data, dict) and len(data) == 1 else data
    if len(texts) == 1 and (_means(texts[0], data) or _means(texts[0], bare)):
        return True
    return isinstance(bare, list) and len(bare) == len(texts) and all(map(_means, texts, bare))


def _means(text: str, value: Any) -> bool:
    if text == value:
        return True
    try:
        return bool(json.loads(text) == value)
    except (ValueError, RecursionError):
        return False
