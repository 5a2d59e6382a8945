"""A request as the model reads it: segments in the order of the prompt, their size, and what a responder may know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from segue.emulators.anthropic import typed_blocks
from segue.emulators.model.model_reply import Offer, Prompt
from segue.emulators.model.prompt_cache import Mark, Seam, size
from segue.emulators.signatures import digest

if TYPE_CHECKING:
    from segue.emulators.anthropic.typed_blocks import Body, Turn
    from segue.emulators.rules import Context

FORCED = ("any", "tool")


def segments(body: Body) -> list[object]:
    """Tools, system, messages: the order in which a cached prefix is built (ANT-86)."""
    return [segment for segment in _marked_segments(body) if not isinstance(segment, Mark | Seam)]


def cached_segments(body: Body) -> list[object]:
    """The prefix up to the last cache mark, with its marks; nothing is cached without one."""
    marked = _marked_segments(body)
    if body.get("cache_control"):
        marked += _mark(body)
    last = max((place for place, segment in enumerate(marked) if isinstance(segment, Mark)), default=-1)
    return marked[: last + 1]


def hour_tokens(body: Body) -> int:
    """Of the prefix that is marked for an hour."""
    marked = cached_segments(body)
    last = max((place for place, segment in enumerate(marked) if segment == Mark(3600)), default=-1)
    return size(marked[: last + 1])


def _marked_segments(body: Body) -> list[object]:
    found: list[object] = []
    for _, tool in typed_blocks.tools_of(body):
        found += [_plain(tool), *_mark(tool)]
    for _, block in typed_blocks.content_blocks(body.get("system")):
        found += [_plain(block), *_mark(block)]
    # These options cost what is cached of the messages, and nothing before them (ANT-86).
    found += [Seam([name, body[name]]) for name in ("tool_choice", "thinking") if name in body]
    for placed in typed_blocks.blocks_of(body):
        inner = [
            mark for _, part in typed_blocks.records_of(placed.value.get("content")) for mark in _mark(part)
        ]
        found += [[placed.role, _plain(placed.value)], *(_mark(placed.value) or inner[:1])]
    return found


def _mark(value: Body) -> list[object]:
    """For five minutes, or for the hour that is asked for."""
    control = value.get("cache_control")
    if not control:
        return []
    return [Mark(3600 if isinstance(control, Mapping) and control.get("ttl") == "1h" else 300)]


def _plain(value: Any) -> Any:
    """Without marks and signatures, and with files by their digest: they are not read letter by letter."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    if value.get("type") in ("image", "document"):
        return {"type": value["type"], "source": digest(value.get("source"))}
    return {key: _plain(item) for key, item in value.items() if key not in ("cache_control", "signature")}


def prompt(body: Body, context: Context) -> Prompt:
    turns = [turn for turn in typed_blocks.turns_of(body) if turn.role in ("user", "assistant")]
    text, results = _last_words(turns)
    choice = typed_blocks.choice_of(body)
    return Prompt(
        provider="anthropic",
        model=context.model,
        text=text,
        results=results,
        tools=() if choice == "none" else tuple(_offers(body, choice)),
        must_call=choice in FORCED,
        parallel=typed_blocks.record_of(body.get("tool_choice")).get("disable_parallel_tool_use") is not True,
        schema=_schema(body),
        thinking=typed_blocks.thinks(body, context),
    )


def _schema(body: Body) -> Body | None:
    # `output_format` is the name of the beta, which is still taken.
    config = typed_blocks.record_of(body.get("output_config"))
    wanted = typed_blocks.record_of(config.get("format") or body.get("output_format"))
    return typed_blocks.record_of(wanted.get("schema")) if wanted.get("type") == "json_schema" else None


def _offers(body: Body, choice: str) -> Iterator[Offer]:
    wanted = typed_blocks.record_of(body.get("tool_choice")).get("name")
    for _, tool in typed_blocks.tools_of(body):
        name = typed_blocks.text_of(tool.get("name"))
        if typed_blocks.is_custom(tool) and (choice != "tool" or name == wanted):
            yield Offer(name, typed_blocks.record_of(tool.get("input_schema")))


def _last_words(turns: list[Turn]) -> tuple[str, tuple[str, ...]]:
    """The user's last text, and the results that came after it."""
    results: list[str] = []
    for turn in reversed(turns):
        if turn.role != "user":
            continue
        texts = [block.text("text") for block in turn.of_type("text")]
        results = [*(_result_text(block.value) for block in turn.of_type("tool_result")), *results]
        if texts:
            return "\n".join(texts), tuple(results)
    return "", tuple(results)


def _result_text(block: Body) -> str:
    parts = typed_blocks.content_blocks(block.get("content"))
    return "\n".join(typed_blocks.text_of(part.get("text")) for _, part in parts)
