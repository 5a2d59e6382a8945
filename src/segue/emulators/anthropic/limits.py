"""How much is too much: images, cache marks, tokens, bytes (ANT-65, ANT-80, ANT-81, ANT-85)."""

from __future__ import annotations

import struct
from base64 import b64decode
from typing import TYPE_CHECKING

from segue.emulators.anthropic import prompt, typed_blocks
from segue.emulators.model.prompt_cache import size
from segue.emulators.rules import Complaints, Context, Refusal, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.emulators.anthropic.typed_blocks import Body

MOST_BYTES = 32 * 1024 * 1024
MOST_IMAGE_BYTES = 10 * 1024 * 1024
MANY_IMAGES = 20
MARKS = 4


def complaints(body: Body, context: Context) -> Complaints:
    yield from images(body)
    yield from image_count(body, context)
    yield from cache_marks(body)
    yield from cache_order(body)
    yield from too_long(body, context)


@rule("ANT-81")
def body_too_large(size: int) -> Complaints:
    if size > MOST_BYTES:
        yield Refusal("ANT-81", "Request exceeds the maximum size", status=413, type="request_too_large")


def _images(body: Body) -> Iterator[tuple[str, Body]]:
    for block in typed_blocks.blocks_of(body):
        if block.type == "image":
            yield f"{block.path}.image", block.value
        if block.type == "tool_result":
            for index, inner in typed_blocks.records_of(block.value.get("content")):
                if inner.get("type") == "image":
                    yield f"{block.path}.tool_result.content.{index}.image", inner


@rule("ANT-65")
def images(body: Body) -> Complaints:
    found = list(_images(body))
    for path, image in found:
        source = typed_blocks.record_of(image.get("source"))
        if source.get("type") != "base64" or not isinstance(source.get("data"), str):
            continue
        data = source["data"]
        where = f"{path}.source.base64"
        if not data:
            yield Refusal("ANT-65", f"{where}: image cannot be empty")
        size = len(data) * 3 // 4
        if size > MOST_IMAGE_BYTES:
            text = f"{where}: image exceeds 10 MB maximum: {size} bytes > {MOST_IMAGE_BYTES} bytes"
            yield Refusal("ANT-65", text)
        longest = _longest_side(data)
        dimension = f"{where}.data: At least one of the image dimensions exceed max allowed size"
        if longest > 8000:
            yield Refusal("ANT-65", f"{dimension}: 8000 pixels")
        elif longest > 2000 and len(found) > MANY_IMAGES:
            yield Refusal("ANT-65", f"{dimension} for many-image requests: 2000 pixels")


def _longest_side(data: str) -> int:
    """Pixels of the longer side, where the header tells it at once (PNG, GIF); else 0."""
    try:
        head = b64decode(data[:64], validate=True)
    except ValueError:
        return 0
    if head.startswith(b"\x89PNG") and len(head) >= 24:
        return int(max(struct.unpack(">II", head[16:24])))
    if head.startswith(b"GIF8") and len(head) >= 10:
        return int(max(struct.unpack("<HH", head[6:10])))
    return 0


@rule("ANT-65")
def image_count(body: Body, context: Context) -> Complaints:
    number, most = len(list(_images(body))), 600 if context.facts.get("context", 0) > 200_000 else 100
    if number > most:
        yield Refusal("ANT-65", f"Too much media: 0 document pages + {number} images > {most}")


def _marked(body: Body) -> Iterator[Body]:
    """All that carries a cache mark, in the order in which the prefix is built: tools, system, messages."""
    for _, tool in typed_blocks.tools_of(body):
        yield tool
    for _, block in typed_blocks.records_of(body.get("system")):
        yield block
    for placed in typed_blocks.blocks_of(body):
        yield placed.value
        for _, inner in typed_blocks.records_of(placed.value.get("content")):
            yield inner


@rule("ANT-85")
def cache_marks(body: Body) -> Complaints:
    marked = [value for value in _marked(body) if value.get("cache_control")]
    found = len(marked) + bool(body.get("cache_control"))
    if found > MARKS:
        text = f"A maximum of {MARKS} blocks with cache_control may be provided. Found {found}."
        yield Refusal("ANT-85", text)
    if any(value.get("type") == "text" and value.get("text") == "" for value in marked):
        yield Refusal("ANT-85", "cache_control cannot be set for empty text blocks")


@rule("ANT-85")
def cache_order(body: Body) -> Complaints:
    lifetimes = [
        typed_blocks.record_of(value["cache_control"]).get("ttl") or "5m"
        for value in _marked(body)
        if value.get("cache_control")
    ]
    if "5m" in lifetimes and "1h" in lifetimes[lifetimes.index("5m") :]:
        text = (
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note that blocks"
            " are processed in the following order: `tools`, `system`, `messages`."
        )
        yield Refusal("ANT-85", text)


@rule("ANT-80")
def too_long(body: Body, context: Context) -> Complaints:
    window = context.facts.get("context")
    if not isinstance(window, int):
        return
    used, asked = size(prompt.segments(body)), body.get("max_tokens")
    if used > window:
        yield Refusal("ANT-80", f"prompt is too long: {used} tokens > {window} maximum")
    elif context.facts.get("reserves_output") and isinstance(asked, int) and used + asked > window:
        text = (
            f"input length and `max_tokens` exceed context limit: {used} + {asked} > {window},"
            " decrease input length or `max_tokens` and try again"
        )
        yield Refusal("ANT-80", text)
