"""Rules across items: duplicates, stored items, reasoning and its followers, calls and outputs (RESP-10 … 13, 24, 43 … 50).

What the emulator stored is in `context.memory`: `responses` (id → record) and `items` (id → record). In a pure check
both are absent, and a chain behind `previous_response_id` is unknown rather than missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from segue.emulators.openai_responses.conversations import (
    held_items,
    locked_conversation,
    unknown_conversation,
)
from segue.emulators.openai_responses.items import type_of
from segue.emulators.rules import Complaints, Context, Refusal, rule
from segue.emulators.signatures import seal, unseal

if TYPE_CHECKING:
    from segue.emulators.rules import Context


PREFIX = "gAAAAAB"


def issue(text: str, context: Context) -> str:
    claims = {"platform": context.platform, "account": context.account, "text": text}
    return seal(context.secret, claims, prefix=PREFIX)


def opens(sealed: str, context: Context) -> bool:
    claims = unseal(context.secret, sealed, prefix=PREFIX)
    return claims is not None and (claims.get("platform"), claims.get("account")) == (
        context.platform,
        context.account,
    )


Item: TypeAlias = Mapping[str, Any]
CALLS = {
    "function_call": "function call",
    "custom_tool_call": "custom tool call",
    "shell_call": "shell call",
    "local_shell_call": "local shell call",
    "apply_patch_call": "apply patch call",
    "computer_call": "computer call",
}
OUTPUTS = {f"{kind}_output": f"{what} output" for kind, what in CALLS.items()}


def stored_chain(body: Mapping[str, Any], memory: Mapping[str, Any]) -> list[Item]:
    """The items behind `previous_response_id` or `conversation`, oldest first."""
    if body.get("conversation") is not None:
        return held_items(body, memory)
    previous = body.get("previous_response_id")
    record = memory.get("responses", {}).get(previous) if isinstance(previous, str) else None
    return list(record["items"]) if record else []


def chain_complaints(body: Mapping[str, Any], items: Sequence[Item], context: Context) -> Complaints:
    everything = [*stored_chain(body, context.memory), *items]
    yield from duplicate_ids(everything)
    yield from reused_call_ids(everything)
    yield from unknown_previous(body, context)
    yield from unknown_conversation(body, context)
    yield from locked_conversation(body, context)
    yield from items_not_stored(body, items, context)
    yield from foreign_seals(items, context)
    yield from reasoning_without_follower(everything, context)
    yield from follower_without_reasoning(everything, context)
    yield from calls_without_output(everything)
    yield from outputs_without_call(body, everything, context)
    yield from outputs_before_their_call(everything)
    yield from second_outputs(everything)


@rule("RESP-24", "H")
def duplicate_ids(items: Sequence[Item]) -> Complaints:
    seen: set[str] = set()
    for item in items:
        value = item.get("id")
        if not isinstance(value, str) or type_of(item) == "item_reference":
            continue
        if value in seen:
            yield Refusal(
                "RESP-24",
                f"Duplicate item found with id {value}. Remove duplicate items from your input and try again.",
                param="input",
            )
        seen.add(value)


@rule("RESP-24", "H")
def reused_call_ids(items: Sequence[Item]) -> Complaints:
    """That it is refused is reported; the words are ours, after those for item ids."""
    seen: set[str] = set()
    for _, value, what in _ids(items, CALLS):
        if value in seen:
            yield Refusal(
                "RESP-24",
                f"Duplicate {what} found with call_id {value}. "
                "Remove duplicate items from your input and try again.",
                param="input",
            )
        seen.add(value)


@rule("RESP-50", "H")
def unknown_previous(body: Mapping[str, Any], context: Context) -> Complaints:
    previous = body.get("previous_response_id")
    if previous is None or "responses" not in context.memory:
        return
    if not isinstance(previous, str) or previous not in context.memory["responses"]:
        yield Refusal(
            "RESP-50",
            f"Previous response with id '{previous}' not found.",
            code="previous_response_not_found",
            param="previous_response_id",
        )


@rule("RESP-45", "H")
def items_not_stored(body: Mapping[str, Any], items: Sequence[Item], context: Context) -> Complaints:
    """A bare id stands for something the server keeps; without storage there is nothing behind it."""
    stored = context.memory.get("items", {})
    for item in items:
        value = item.get("id")
        sort = type_of(item)
        bare = sort == "item_reference" or (
            sort == "reasoning" and not isinstance(item.get("encrypted_content"), str)
        )
        if not bare or not isinstance(value, str) or value in stored:
            continue
        hint = (
            " Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove "
            "this item from your input."
        )
        # A pure check cannot know what the server stored for a client that stores.
        if body.get("store") is False or "items" in context.memory:
            yield Refusal(
                "RESP-45",
                f"Item with id '{value}' not found." + (hint if body.get("store") is False else ""),
                status=404,
                param="input",
            )


@rule("RESP-46", "H")
def foreign_seals(items: Sequence[Item], context: Context) -> Complaints:
    """Two wordings are reported; the one with the item's id is used where there is an id."""
    for item in items:
        sealed = item.get("encrypted_content")
        if (
            type_of(item) not in ("reasoning", "compaction")
            or not isinstance(sealed, str)
            or opens(sealed, context)
        ):
            continue
        name = item.get("id")
        shown = f"{sealed[:4]}...{sealed[-4:]}"
        text = (
            f"The encrypted content for item {name} could not be verified. "
            "Reason: Encrypted content could not be decrypted or parsed."
            if isinstance(name, str)
            else f"The encrypted content {shown} could not be verified."
        )
        yield Refusal("RESP-46", text, code="invalid_encrypted_content")


@rule("RESP-43", "H")
def reasoning_without_follower(items: Sequence[Item], context: Context) -> Complaints:
    """Enforced for reasoning the server stored; for any other it is state the server does not have (L)."""
    stored = context.memory.get("items", {})
    for position, item in enumerate(items):
        if type_of(item) != "reasoning":
            continue
        name = item.get("id")
        record = stored.get(name) if isinstance(name, str) else None
        after = items[position + 1] if position + 1 < len(items) else {}
        if not _follows(after, record):
            yield Refusal(
                "RESP-43",
                f"Item '{name}' of type 'reasoning' was provided without its required following item.",
                param="input",
                confidence="H" if record else "L",
            )


def _follows(after: Item, record: Mapping[str, Any] | None) -> bool:
    if not after:
        return False
    if record is None:
        return type_of(after) in (*CALLS, "reasoning") or after.get("role") == "assistant"
    follower = record.get("follower")
    return follower is None or after.get("id", follower) == follower


@rule("RESP-44", "H")
def follower_without_reasoning(items: Sequence[Item], context: Context) -> Complaints:
    stored = context.memory.get("items", {})
    present = {item.get("id") for item in items if isinstance(item.get("id"), str)}
    for item in items:
        name = item.get("id")
        record = stored.get(name) if isinstance(name, str) else None
        needed = record.get("reasoning") if record else None
        if needed and needed not in present:
            yield Refusal(
                "RESP-44",
                f"Item '{name}' of type '{type_of(item)}' was provided without its required 'reasoning' item: "
                f"'{needed}'.",
                param="input",
            )


def _ids(items: Sequence[Item], types: Mapping[str, str]) -> Iterator[tuple[int, str, str]]:
    for position, item in enumerate(items):
        kind = type_of(item)
        value = item.get("call_id")
        if value is None and kind == "local_shell_call_output":
            value = item.get("id")  # as the official types have it
        if kind in types and isinstance(value, str):
            yield position, value, types[kind]


def _runs_there(item: Item) -> bool:
    """Whether the server performs the call itself, in a container."""
    place = item.get("environment")
    return isinstance(place, Mapping) and str(place.get("type")).startswith("container")


def _answers(what: str) -> tuple[str, ...]:
    """The outputs that answer a call of this kind. Clients send that of a local shell as a function's, too."""
    return f"{what} output", *(("function call output",) if what == "local shell call" else ())


@rule("RESP-10", "H")
def calls_without_output(items: Sequence[Item]) -> Complaints:
    answered = {(value, what) for _, value, what in _ids(items, OUTPUTS)}
    for _, value, what in _ids([item for item in items if not _runs_there(item)], CALLS):
        if not any((value, output) in answered for output in _answers(what)):
            yield Refusal(
                "RESP-10",
                f"No tool output found for {what} {value}.",
                param="input",
                confidence="H" if what == "function call" else "M",
            )


@rule("RESP-11", "H")
def outputs_without_call(body: Mapping[str, Any], items: Sequence[Item], context: Context) -> Complaints:
    continued = body.get("previous_response_id") or body.get("conversation")
    if continued and "responses" not in context.memory:
        return
    if body.get("prompt"):  # it may stand for messages
        return
    called = {(value, output) for _, value, what in _ids(items, CALLS) for output in _answers(what)}
    for _, value, what in _ids(items, OUTPUTS):
        if (value, what) not in called:
            yield Refusal("RESP-11", f"No tool call found for {what} with call_id {value}.", param="input")


@rule("RESP-12", "M")
def outputs_before_their_call(items: Sequence[Item]) -> Complaints:
    first = {value: position for position, value, _ in reversed(list(_ids(items, CALLS)))}
    for position, value, what in _ids(items, OUTPUTS):
        if first.get(value, -1) > position:
            yield Refusal(
                "RESP-12",
                f"No tool call found for {what} with call_id {value}.",
                param="input",
                confidence="M",
            )


@rule("RESP-13", "L")
def second_outputs(items: Sequence[Item]) -> Complaints:
    """Not reliably refused by OpenAI; the wording is ours."""
    seen: set[str] = set()
    for _, value, what in _ids(items, OUTPUTS):
        if value in seen:
            yield Refusal(
                "RESP-13", f"Duplicate {what} found with call_id {value}.", param="input", confidence="L"
            )
        seen.add(value)
