"""The Responses wire: input items as we send them, and the one shape that every event of a stream fits into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, final

import msgspec
from msgspec import Raw, Struct

from segue.conversation.json_safe import encodable
from segue.conversation.tools import joined_name
from segue.dialects.requests.data_urls import url_of
from segue.transcript.rules import media_type

if TYPE_CHECKING:
    from segue.conversation.blocks import Media


class InputText(Struct, tag="input_text", gc=False):
    """Text that is not the model's."""

    text: str


class InputImage(Struct, tag="input_image", gc=False):
    """A picture, by its address or as a `data:` URL."""

    image_url: str
    detail: str = "auto"


class InputFile(Struct, tag="input_file", gc=False, omit_defaults=True):
    """A document, by its address or as a `data:` URL."""

    filename: str = ""
    file_data: str = ""
    file_url: str = ""


def media_part(media: Media) -> InputImage | InputFile:
    if media_type(media).startswith("image/"):
        return InputImage(url_of(media))
    if not media.data:
        return InputFile(file_url=media.url)
    return InputFile(encodable(media.name) or "document.pdf", url_of(media))


Part: TypeAlias = InputText | InputImage | InputFile | Raw


class MessageItem(Struct, tag="message", gc=False):
    """A message of the user, the operator or the model. No item of ours has an `id` (RESP-23)."""

    role: str
    content: str | list[Part]


class SummaryText(Struct, tag="summary_text", gc=False):
    """A thought as the provider summarises it."""

    text: str


class ReasoningItem(Struct, tag="reasoning", gc=False):
    """A sealed thought: no `content` (RESP-41), no `status` (RESP-42)."""

    summary: list[SummaryText]
    encrypted_content: str


class FunctionCall(Struct, tag="function_call", gc=False):
    """A call."""

    call_id: str
    name: str
    arguments: str


class FunctionCallOutput(Struct, tag="function_call_output", gc=False):
    """The end of a call."""

    call_id: str
    output: str | list[Part]


Item: TypeAlias = MessageItem | ReasoningItem | FunctionCall | FunctionCallOutput | Raw


class Chunk(Struct, gc=False):
    """One event of a stream, of whichever type."""

    type: str = ""
    output_index: int | None = None
    item_id: str | None = None
    content_index: int | None = None
    summary_index: int | None = None
    delta: Any = None
    annotation: Any = None
    item: dict[str, Any] | None = None
    response: dict[str, Any] | None = None
    error: Any = None
    code: Any = None
    message: Any = None


@final
class MoreText(Struct, tag="response.output_text.delta", gc=False):
    """More of a text."""

    output_index: int
    delta: str
    content_index: int | None = None


@final
class MoreThought(Struct, tag="response.reasoning_summary_text.delta", gc=False):
    """More of a thought."""

    output_index: int
    delta: str
    summary_index: int | None = None


@final
class MoreArguments(Struct, tag="response.function_call_arguments.delta", gc=False):
    """More of the arguments of a call."""

    output_index: int
    delta: str


CHUNKS = msgspec.json.Decoder(Chunk)
MORE_TEXT = msgspec.json.Decoder(MoreText)
MORE = msgspec.json.Decoder(MoreText | MoreThought | MoreArguments)
"""What nearly all events are, in shapes of their own: it takes four fifths of the time to read."""
ENCODER = msgspec.json.Encoder()


def name_of(item: dict[str, Any]) -> str:
    """Our name of the tool that an item calls. A tool found by search bears its own name as its namespace."""
    name, namespace = item.get("name"), item.get("namespace")
    if not isinstance(name, str):
        return ""
    grouped = isinstance(namespace, str) and namespace and namespace != name
    return joined_name(str(namespace), name) if grouped else name
