"""The steps of a request: their shapes, calls with their results, thoughts with their signatures (INT-03, INT-04, INT-07)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from segue.emulators import signatures
from segue.emulators.gemini import thoughts
from segue.emulators.rules import Complaints, Confidence, Context, Refusal, rule

Step: TypeAlias = Mapping[str, Any]
CONTENTS = frozenset({"text", "image", "document", "audio", "video"})
_SERVED = (
    *("code_execution", "file_search", "google_maps", "google_search", "mcp_server_tool", "processing"),
    *("retrieval", "url_context"),
)
SERVED = frozenset(f"{tool}_{part}" for tool in _SERVED for part in ("call", "result"))
FIELDS = {
    "user_input": {"content"},
    "model_output": {"content", "error"},
    "thought": {"signature", "summary"},
    "function_call": {"id", "name", "arguments"},
    "function_result": {"call_id", "name", "result", "is_error"},
}
NEEDED = {"function_call": ("id", "name", "arguments"), "function_result": ("call_id", "result")}
CONTENT_FIELDS = {
    "text": {"text", "annotations"},
    "image": {"data", "uri", "mime_type", "resolution"},
    "document": {"data", "uri", "mime_type"},
    "audio": {"data", "uri", "mime_type", "channels", "sample_rate"},
    "video": {"data", "uri", "mime_type", "name", "processing", "resolution"},
}
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")


def refused(rule_id: str, message: str, confidence: Confidence = "H") -> Refusal:
    return Refusal(rule_id, message, confidence=confidence)


def steps_in(body: Mapping[str, Any]) -> list[Any]:
    """The steps that the input stands for, in whichever of its forms (INT-03)."""
    given = body.get("input")
    if isinstance(given, str):
        return [{"type": "user_input", "content": [{"type": "text", "text": given}]}]
    if isinstance(given, dict):
        return [{"type": "user_input", "content": [given]}]
    if not isinstance(given, list):
        return []
    kinds = [item.get("type") if isinstance(item, dict) else None for item in given]
    if kinds and all(kind in CONTENTS for kind in kinds):
        return [{"type": "user_input", "content": given}]
    return given


@rule("INT-03")
@rule("INT-04")
def shapes(steps: Sequence[Any]) -> Complaints:
    for index, step in enumerate(steps):
        path = f"input[{index}]"
        if not isinstance(step, dict):
            yield refused("INT-03", f"Invalid value at '{path}': expected an object.")
            continue
        kind = step.get("type")
        if kind in SERVED:
            yield from _signature(step, path)
            continue
        if kind not in FIELDS:
            yield refused("INT-03", f"Invalid value at '{path}.type': unknown step type {kind!r}.")
            continue
        for name in NEEDED.get(kind, ()):
            if step.get(name) is None:
                yield refused("INT-04", f"Missing required parameter: '{path}.{name}'.")
        for name in step.keys() - FIELDS[kind] - {"type"}:
            yield refused("INT-04", f"Unknown parameter '{name}' at '{path}'.", "M")
        yield from _FORMS[kind](step, path)


def _said(step: Step, path: str) -> Complaints:
    content = step.get("content")
    if not isinstance(content, list):
        yield refused("INT-04", f"Invalid value at '{path}.content': expected a list.")
        return
    if step["type"] == "user_input" and not content:
        yield refused("INT-04", f"Invalid value at '{path}.content': must not be empty.", "M")
    yield from contents(content, f"{path}.content")


def contents(listed: Sequence[Any], path: str) -> Complaints:
    for index, content in enumerate(listed):
        place = f"{path}[{index}]"
        kind = content.get("type") if isinstance(content, dict) else None
        if kind not in CONTENTS:
            yield refused("INT-04", f"Invalid value at '{place}.type': unknown content type {kind!r}.")
            continue
        for name in content.keys() - CONTENT_FIELDS[kind] - {"type"}:
            yield refused("INT-04", f"Unknown parameter '{name}' at '{place}'.", "M")
        if kind == "text":
            if not isinstance(content.get("text"), str):
                yield refused("INT-04", f"Invalid value at '{place}.text': expected a string.")
        else:
            yield from _shown(content, place)


def _shown(content: Mapping[str, Any], path: str) -> Complaints:
    data, uri, mime = (content.get(name) for name in ("data", "uri", "mime_type"))
    if not data and not uri:
        yield refused("INT-04", f"One of 'data' or 'uri' is required at '{path}'.")
    if data is not None and not (isinstance(data, str) and _BASE64.fullmatch(data)):
        yield refused("INT-04", f"Invalid value at '{path}.data': Base64 decoding failed.")
    for name, value in (("uri", uri), ("mime_type", mime)):
        if value is not None and not isinstance(value, str):
            yield refused("INT-04", f"Invalid value at '{path}.{name}': expected a string.")
    if data and not mime:
        yield refused("INT-04", f"Missing required parameter: '{path}.mime_type'.", "M")


def _signature(step: Step, path: str) -> Complaints:
    value = step.get("signature")
    if value is not None and not (isinstance(value, str) and _BASE64.fullmatch(value)):
        yield refused("INT-04", f"Invalid value at '{path}.signature': Base64 decoding failed.")


def _thought(step: Step, path: str) -> Complaints:
    yield from _signature(step, path)
    summary = step.get("summary")
    if summary is not None:
        if not isinstance(summary, list):
            yield refused("INT-04", f"Invalid value at '{path}.summary': expected a list.")
        else:
            yield from contents(summary, f"{path}.summary")


def _call(step: Step, path: str) -> Complaints:
    for name in ("id", "name"):
        if step.get(name) is not None and not (isinstance(step[name], str) and step[name]):
            yield refused("INT-04", f"Invalid value at '{path}.{name}': expected a string.")
    if step.get("arguments") is not None and not isinstance(step["arguments"], dict):
        yield refused("INT-04", f"Invalid value at '{path}.arguments': expected an object.")


def _result(step: Step, path: str) -> Complaints:
    if step.get("call_id") is not None and not (isinstance(step["call_id"], str) and step["call_id"]):
        yield refused("INT-04", f"Invalid value at '{path}.call_id': expected a string.")
    result = step.get("result")
    if isinstance(result, list):
        yield from contents(result, f"{path}.result")
    elif result is not None and not isinstance(result, str | dict):
        yield refused("INT-04", f"Invalid value at '{path}.result': expected text, an object or contents.")
    if step.get("is_error") is not None and not isinstance(step["is_error"], bool):
        yield refused("INT-04", f"Invalid value at '{path}.is_error': expected a boolean.")


_FORMS = {
    "user_input": _said,
    "model_output": _said,
    "thought": _thought,
    "function_call": _call,
    "function_result": _result,
}


# Across steps


@rule("INT-06")
def pairing(steps: Sequence[Step], *, known: bool) -> Complaints:
    """`known`: whether all that stands before the steps is among them."""
    waiting: dict[str, str] = {}
    seen: set[str] = set()
    for index, step in enumerate(steps):
        kind = step.get("type")
        if kind == "function_call":
            name = str(step.get("id"))
            if name in seen:
                yield refused("INT-06", f"Duplicate function_call id '{name}' at 'input[{index}]'.", "M")
            seen.add(name)
            waiting[name] = str(step.get("name"))
        elif kind == "function_result":
            name = str(step.get("call_id"))
            if name in waiting:
                called = waiting.pop(name)
                if step.get("name") not in (None, "", called):
                    text = f"The function_result for '{name}' names '{step['name']}', the call '{called}'."
                    yield refused("INT-06", text, "M")
            elif name in seen:
                yield refused("INT-06", f"Function call '{name}' was answered before.", "M")
            elif known:
                yield refused("INT-06", f"No function_call found for function_result with call_id '{name}'.")
        elif kind == "user_input" and waiting:
            yield _unanswered(waiting)
            waiting.clear()
    if waiting:
        yield _unanswered(waiting)


def _unanswered(waiting: Mapping[str, str]) -> Refusal:
    return refused("INT-06", f"Function call '{next(iter(waiting))}' has no function_result.")


@rule("INT-07", "M")
def order(steps: Sequence[Step], context: Context) -> Complaints:
    """Some models go on with what they said last (GEM-07)."""
    if not steps:
        return
    if steps[0].get("type") != "user_input":
        yield refused("INT-07", "The first step must be a user_input.", "M")
    ends = ("user_input", "function_result")
    if context.facts.get("may_end_with_model") is False and steps[-1].get("type") not in ends:
        yield refused("INT-07", "The last step must be a user_input or a function_result.", "M")


@rule("INT-04")
def foreign_signatures(steps: Sequence[Step], context: Context) -> Complaints:
    """A signature is that of what follows it, issued to this account for this generation of models."""
    if context.facts.get("trust_foreign_signatures"):
        return
    for index, step in enumerate(steps):
        signature = step.get("signature")
        if step.get("type") != "thought" or not signature:
            continue
        following = next(
            (after for after in steps[index + 1 :] if after.get("type") in ("function_call", "model_output")),
            {},
        )
        born = signatures.unseal(context.secret, thoughts.canonical(signature), thoughts.PREFIX)
        if born is None or any(born[key] != value for key, value in thoughts.owner(context).items()):
            yield refused("INT-04", "Corrupted thought signature.")
        elif born["part"] not in ("text", thoughts.bound(_part(following))):
            yield refused("INT-04", "Invalid thought signature.")


def _part(step: Step) -> dict[str, Any]:
    if step.get("type") != "function_call":
        return {}
    return {"function_call": {"name": step.get("name"), "args": step.get("arguments")}}


@rule("INT-04", "L")
def unsigned_calls(steps: Sequence[Step], context: Context) -> Complaints:
    """generateContent wants a signature on the first call of a step in the current turn; here nobody says so."""
    if context.facts.get("signatures_required") is not True:
        return
    last = max((index for index, step in enumerate(steps) if step.get("type") == "user_input"), default=-1)
    signed = called = False
    for step in steps[last + 1 :]:
        kind = step.get("type")
        signed = signed or (kind == "thought" and bool(step.get("signature")))
        if kind == "function_call" and not called and not signed:
            yield refused("INT-04", thoughts.MISSING.format(name=step.get("name"), position=last + 1), "L")
        called = kind == "function_call"
        signed = signed and kind != "function_result"


def texts_of(step: Step, field: str = "content") -> Iterator[str]:
    held = step.get(field)
    for content in held if isinstance(held, list) else ():
        if isinstance(content, dict) and isinstance(content.get("text"), str):
            yield content["text"]
