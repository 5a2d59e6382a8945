"""What a responder may know of a Responses request, and the segments by which its prefix is cached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.emulators.model.model_reply import Offer, Prompt
from segue.emulators.openai_chat.prompt import chosen, schema_in, text_in
from segue.emulators.openai_responses.chain import OUTPUTS
from segue.emulators.openai_responses.items import type_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def prompt_of(body: Mapping[str, Any], items: Sequence[Mapping[str, Any]], *, thinking: bool) -> Prompt:
    text, results = _last_turn(items)
    # Tools may also be introduced in the middle.
    offered = [*(body.get("tools") or ()), *(tool for item in items for tool in _introduced(item))]
    functions = [tool for tool in offered if tool.get("type") == "function"]
    offers = tuple(Offer(tool["name"], tool.get("parameters") or {}) for tool in functions)
    offers, must_call = chosen(offers, body.get("tool_choice"))
    return Prompt(
        provider="openai",
        model=str(body.get("model", "")),
        text=text,
        results=results,
        tools=offers,
        must_call=must_call,
        parallel=body.get("parallel_tool_calls") is not False,
        schema=schema_in((body.get("text") or {}).get("format")),
        thinking=thinking,
    )


def _last_turn(items: Sequence[Mapping[str, Any]]) -> tuple[str, tuple[str, ...]]:
    results: list[str] = []
    for item in reversed(items):
        if item.get("role") == "user":
            return text_in(item.get("content")), tuple(reversed(results))
        if type_of(item) in OUTPUTS:
            results.append(_said(item.get("output")))
    return "", tuple(reversed(results))


def _introduced(item: Mapping[str, Any]) -> list[Any]:
    tools = item.get("tools") if type_of(item) in ("additional_tools", "tool_search_output") else None
    return tools if isinstance(tools, list) else []


def _said(output: object) -> str:
    """The text of an output, also of what a shell wrote."""
    chunks = output if isinstance(output, list) else []
    wrote = [chunk.get(name) for chunk in chunks if isinstance(chunk, dict) for name in ("stdout", "stderr")]
    return "".join([text for text in wrote if isinstance(text, str)]) or text_in(output)


def segments_of(body: Mapping[str, Any], items: Sequence[Mapping[str, Any]]) -> list[object]:
    return [body.get("tools"), body.get("instructions"), *items]
