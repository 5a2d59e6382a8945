"""The fast path of requests, both ways (see transcript/fast): the items of which most of them consist.

An item with exactly the fields counted here fits into its shape as it is, and holds nothing of the wire's own but its id, its state and
the form of its text, so that neither need be looked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import structs

from segue.conversation.blocks import Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.events import parse_arguments
from segue.conversation.extra import Extra
from segue.conversation.json_safe import is_json_safe
from segue.dialects.openai_responses.rules import NAME
from segue.dialects.openai_responses.shapes import PASSED
from segue.dialects.openai_responses.wire import FunctionCall, FunctionCallOutput, MessageItem
from segue.dialects.requests.messages import outcome_text
from segue.dialects.requests.seal_makers import seal_origin
from segue.dialects.requests.value_shapes import item_id
from segue.transcript.steps import AnsweredCall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.conversation.blocks import Block, Origin
    from segue.conversation.message import Speaker
    from segue.transcript.steps import StepBlock

ReadItem: TypeAlias = "tuple[Speaker, Sequence[Block], bool]"
"""Whose item it is, its blocks, and whether it is an instruction."""
_ROLES: Final[dict[str, tuple[Speaker, str, bool]]] = {
    "user": ("user", "input_text", False),
    "developer": ("user", "input_text", True),
    "system": ("user", "input_text", True),
    "assistant": ("model", "output_text", False),
}
"""Who speaks, of which kind the texts are, and whether it is an instruction."""
_ALONE: Final = Extra(NAME)
_PARTS: Final = {kind: Extra(NAME, form={"type": kind}) for kind in ("input_text", "output_text")}
_FIRST_PARTS: Final = {kind: structs.replace(extra, container=_ALONE) for kind, extra in _PARTS.items()}
_IS_ID: Final = item_id().accepts
_BESIDE: Final = frozenset({"id", "status", PASSED})
_EMPTY_LISTS: Final = frozenset({"type", "annotations", "logprobs"})
"""What a text that the model wrote has, beside itself, if it cites nothing."""


def write_fast(blocks: tuple[StepBlock, ...], items: list[Any]) -> bool:
    """Add the items of a reply: texts, and calls with their results; whether that is what it is."""
    written: list[Any] = []
    results: list[Any] = []
    for block in blocks:
        if block.extra is not None and block.extra.dialect == NAME:
            return False
        if type(block) is AnsweredCall:
            done = block.completion
            if (done.extra is not None and done.extra.dialect == NAME) or done.media:
                return False
            written.append(FunctionCall(block.id, block.name, block.arguments))
            results.append(FunctionCallOutput(block.id, outcome_text(done)))
        elif type(block) is Text and block.seal is None and not block.citations:
            written.append(MessageItem("assistant", block.text))
        else:
            return False
    items += written
    items += results
    return True


def read_fast(item: Any, origin: Origin) -> ReadItem | None:
    """A message of texts, a function's call or its output, or a sealed thought; None if it is anything else."""
    if type(item) is not dict:
        return None
    kind = item.get("type", "message")
    if kind == "function_call":
        return _read_call(item)
    if kind == "function_call_output":
        call_id, output = item.get("call_id"), item.get("output")
        if type(call_id) is not str or not call_id or type(output) is not str:
            return None
        form = _beside(item, 3)
        if form is None:
            return None
        extra = Extra(NAME, form=form) if form else None
        result = ToolResult("", "", output, complete=True, native_id=call_id, extra=extra)
        return "tool", (result,), False
    if kind == "message":
        return _read_message(item)
    return _read_thought(item, origin) if kind == "reasoning" else None


def _read_call(item: dict[str, Any]) -> ReadItem | None:
    call_id, name, raw = item.get("call_id"), item.get("name"), item.get("arguments")
    if type(call_id) is not str or not call_id or type(name) is not str or type(raw) is not str:
        return None
    form = _beside(item, 4)
    if form is None:
        return None
    extra = Extra(NAME, form=form) if form else None
    return "model", (ToolCall("", name, parse_arguments(raw), raw, call_id, extra=extra),), False


def _read_message(item: dict[str, Any]) -> ReadItem | None:
    role, content = item.get("role"), item.get("content")
    found = _ROLES.get(role) if type(role) is str else None
    if found is None:
        return None
    speaker, kind, instruction = found
    typed = "type" in item
    form = _beside(item, 3 if typed else 2)
    if form is None:
        return None
    if role == "system":  # we would call every instruction the developer's
        form = _with_field(item, form, "role")
    around = None if typed and not form else Extra(NAME, form=form, absent=() if typed else ("type",))
    if type(content) is str:
        said = Text(content) if around is None else Text(content, None, Extra(NAME, container=around))
        return speaker, (said,), instruction
    if type(content) is not list or not content:
        return None
    own, begins = _PARTS[kind], _FIRST_PARTS[kind]
    extra = begins if around is None else structs.replace(own, container=around)
    blocks: list[Block] = []
    for part in content:
        if type(part) is not dict or part.get("type") != kind:
            return None
        text = part.get("text")
        if type(text) is not str:
            return None
        if len(part) != 2:
            form = {name: value for name, value in part.items() if name != "text"}
            if any(form[name] != [] for name in form if name != "type") or not _EMPTY_LISTS.issuperset(form):
                return None
            extra = structs.replace(extra, form=form)
        blocks.append(Text(text, None, extra))
        extra = own
    return speaker, blocks, instruction


def _read_thought(item: dict[str, Any], origin: Origin) -> ReadItem | None:
    """What is said of the thought is nothing, or one text. It has no state here (RESP-42)."""
    sealed, summary = item.get("encrypted_content"), item.get("summary")
    if type(sealed) is not str or not sealed or type(summary) is not list or "status" in item:
        return None
    form = _beside(item, 4 if "content" in item else 3)
    if form is None or item.get("content") is not None:
        return None
    if "content" in item:
        form = _with_field(item, form, "content")
    thought: Any = ""
    if summary:
        part = summary[0]
        if (
            len(summary) != 1
            or type(part) is not dict
            or len(part) != 2
            or part.get("type") != "summary_text"
        ):
            return None
        thought = part.get("text")
        if type(thought) is not str or not thought:
            return None
    extra = Extra(NAME, form=form) if form else None
    seal = Seal(seal_origin(sealed, origin, "openai"), sealed, "encrypted")
    return "model", (Reasoning(thought, seal, extra),), False


def _beside(item: dict[str, Any], read: int) -> dict[str, Any] | None:
    """What an item has beside so many fields that are read, in its order; None if that is more than its id, its state and what Codex
    notes for itself."""
    if len(item) == read:
        return _NOTHING
    form = {name: value for name, value in item.items() if name in _BESIDE}
    if len(item) != read + len(form) or form.get("status", "completed") != "completed":
        return None
    if "id" in form and not _IS_ID(form["id"]):
        return None
    return form if PASSED not in form or is_json_safe(form[PASSED]) else None


def _with_field(item: dict[str, Any], form: dict[str, Any], field: str) -> dict[str, Any]:
    """The form of an item with one more of its fields, in their order."""
    return {name: value for name, value in item.items() if name in form or name == field}


_NOTHING: Final[dict[str, Any]] = {}
