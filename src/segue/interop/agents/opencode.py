"""opencode: the document that `opencode export` writes and `opencode import` takes. Its own database is never written.

It has messages of parts, where one reply may hold several steps with their calls and results.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from segue.conversation.blocks import Media
from segue.interop.agents.session_file import (
    Said,
    SessionFile,
    fields,
    image_block,
    json_text,
    messages_session,
    milliseconds,
    objects,
    short_id,
    text_block,
    text_of,
)
from segue.interop.agents.session_steps import ModelReply, Prompt, StoredCall

if TYPE_CHECKING:
    from segue.interop.agents.session_file import SessionPlan

_WIRE = "anthropic"


def read_opencode(document: object) -> SessionFile | None:
    session = fields(document)
    recorded = objects(session.get("messages"))
    if not isinstance(session.get("info"), dict) or not all("info" in m and "parts" in m for m in recorded):
        return None
    reverted = fields(session["info"].get("revert")).get("messageID")
    said: list[Said] = []
    model = ""
    for place, message in enumerate(recorded):
        info, parts, wrote = fields(message["info"]), objects(message["parts"]), ""
        if reverted and info.get("id") == reverted:
            break
        if info.get("role") == "user":
            if _compacts(parts, recorded[place + 1 : place + 2]):
                said = []
            added = [{"role": "user", "content": _prompt(parts)}]
        elif info.get("role") == "assistant":
            signed = info.get("providerID") == _WIRE
            wrote = text_of(info.get("modelID")) if signed else ""
            model = wrote or model
            added = _steps(parts, signed=signed)
        else:
            continue
        said += [
            Said(message, model=wrote if message["role"] == "assistant" else None)
            for message in added
            if message["content"]
        ]
    return messages_session("opencode session", said, model=model)


def _compacts(parts: list[dict[str, Any]], following: list[dict[str, Any]]) -> bool:
    """Whether a message asks for the summary that takes the place of everything before."""
    asked = any(part.get("type") == "compaction" for part in parts)
    return asked and any(fields(message["info"]).get("summary") is True for message in following)


def _prompt(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for part in parts:
        match part.get("type"):
            case "text" if not part.get("ignored") and part.get("text"):
                blocks.append(text_block(text_of(part["text"])))
            case "file":
                blocks += _read_file(part)
            case "compaction":
                blocks.append(text_block("Summarise our conversation so far."))
    return blocks


def _read_file(part: dict[str, Any]) -> list[dict[str, Any]]:
    mime, url = text_of(part.get("mime")), text_of(part.get("url"))
    head, _, data = url.partition(";base64,")
    if mime.startswith("image/") and head.startswith("data:") and data:
        return [image_block(mime, data)]
    name = text_of(part.get("filename")) or mime
    return [text_block(f"[Attached file: {name}]")] if name else []


def _steps(parts: list[dict[str, Any]], *, signed: bool) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    blocks: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for part in (*parts, {"type": "step-start"}):
        match part.get("type"):
            case "step-start":
                messages += [{"role": "assistant", "content": blocks}, {"role": "user", "content": results}]
                blocks, results = [], []
            case "text" if part.get("text"):
                blocks.append(text_block(text_of(part["text"])))
            case "reasoning":
                blocks.append(_thinking(part, signed=signed))
            case "tool":
                call, result = _call(part)
                blocks.append(call)
                results += result
    return messages


def _thinking(part: dict[str, Any], *, signed: bool) -> dict[str, Any]:
    given = fields(fields(part.get("metadata")).get(_WIRE)) if signed else {}
    redacted = text_of(given.get("redactedData"))
    if redacted:
        return {"type": "redacted_thinking", "data": redacted}
    text, signature = text_of(part.get("text")), text_of(given.get("signature"))
    return {"type": "thinking", "thinking": text, "signature": signature}


def _call(part: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A call, and its result if it has one."""
    state = fields(part.get("state"))
    call_id = text_of(part.get("callID"))
    call = {
        "type": "tool_use",
        "id": call_id,
        "name": text_of(part.get("tool")),
        "input": state.get("input") or {},
    }
    match state.get("status"):
        case "completed":
            content = [text_block(json_text(state.get("output")))]
            for file in objects(state.get("attachments")):
                content += _read_file(file)
            return call, [{"type": "tool_result", "tool_use_id": call_id, "content": content}]
        case "error":
            error = json_text(state.get("error"))
            return call, [{"type": "tool_result", "tool_use_id": call_id, "content": error, "is_error": True}]
        case _:
            return call, []


# Sessions written for it


_VERSION: Final = "1.18.33"
_AGENT: Final = "build"
_NO_PROVIDER: Final = "moved"
_IDS_PER_MILLISECOND: Final = 0x1000
_NOTHING: Final = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}


def session_id(plan: SessionPlan) -> str:
    return f"ses_{short_id(plan, 'session')[:26]}"


def opencode_document(plan: SessionPlan) -> bytes:
    """Each key that the import needs is there: a missing one refuses the rest after a part was stored."""
    return json.dumps(_Document(plan).written(), ensure_ascii=False).encode("utf-8", "replace")


class _Document:
    def __init__(self, plan: SessionPlan) -> None:
        self._plan = plan
        self._session = session_id(plan)
        self._time = milliseconds(plan.began)
        self._messages: list[dict[str, Any]] = []
        self._parent = ""
        self._ids = 0

    def written(self) -> dict[str, Any]:
        note = self._plan.note
        for step in self._plan.steps:
            if type(step) is Prompt:
                self._prompt(step, note)
                note = ""
            elif type(step) is ModelReply:
                self._reply(step)
        plan = self._plan
        info = {
            "id": self._session,
            "slug": "moved-session",
            "projectID": "global",
            "directory": plan.folder,
            "title": plan.title or "Moved session",
            "version": _VERSION,
            "time": {"created": milliseconds(plan.began), "updated": self._time},
        }
        return {"info": info, "messages": self._messages}

    def _prompt(self, prompt: Prompt, note: str) -> None:
        message = self._new_id("msg")
        provider, _, model = self._plan.answers.partition("/")
        # The model that answers next: opencode asks the one of the last prompt, and fails if it is not configured.
        asked = {"providerID": provider, "modelID": model} if model else self._model(self._plan.model)
        info = {"role": "user", "agent": _AGENT, "model": asked}
        parts = [{"type": "text", "text": note, "synthetic": True}] if note else []
        parts += [
            _file(part) if type(part) is Media else {"type": "text", "text": part.text}
            for part in prompt.parts
        ]
        self._add(message, info, parts)
        self._parent = message

    def _reply(self, reply: ModelReply) -> None:
        model = self._model(reply.model)
        info = {
            "role": "assistant",
            "parentID": self._parent,
            "mode": _AGENT,
            "agent": _AGENT,
            "path": {"cwd": self._plan.folder, "root": self._plan.folder},
            "cost": 0,
            "tokens": _NOTHING,
            "providerID": model["providerID"],
            "modelID": model["modelID"],
            "finish": "tool-calls" if reply.calls else "stop",
        }
        parts = [{"type": "text", "text": reply.text}] if reply.text else []
        message = self._new_id("msg")
        self._add(message, info, [*parts, *(self._tool(call, message) for call in reply.calls)])

    def _tool(self, call: StoredCall, message: str) -> dict[str, Any]:
        now = {"start": self._time, "end": self._time}
        state: dict[str, Any] = {"input": call.arguments, "time": now}
        if call.failed and not call.media:  # an error can hold no images
            state |= {"status": "error", "error": call.output}
        else:
            state |= {"status": "completed", "output": call.output, "title": call.name, "metadata": {}}
        if call.media:
            belongs = {"sessionID": self._session, "messageID": message}
            state["attachments"] = [
                {**_file(media), "id": self._new_id("prt"), **belongs} for media in call.media
            ]
        return {"type": "tool", "tool": call.name, "callID": call.id, "state": state}

    def _add(self, message: str, info: dict[str, Any], parts: list[dict[str, Any]]) -> None:
        self._time += 1
        time = {"created": self._time, **({"completed": self._time} if info["role"] == "assistant" else {})}
        belongs = {"sessionID": self._session, "messageID": message}
        self._messages.append(
            {
                "info": {**info, "id": message, "sessionID": self._session, "time": time},
                "parts": [{**part, "id": self._new_id("prt"), **belongs} for part in parts],
            }
        )

    def _new_id(self, prefix: str) -> str:
        """Rising, as its own are: it orders the parts of a message by their ids, and compares those of messages."""
        self._ids += 1
        moment = (milliseconds(self._plan.began) * _IDS_PER_MILLISECOND + self._ids) % 2**48
        return f"{prefix}_{moment:012x}{short_id(self._plan, prefix, self._ids)[:14]}"

    def _model(self, name: str) -> dict[str, str]:
        return {"providerID": _NO_PROVIDER, "modelID": name or self._plan.model or "unknown"}


def _file(media: Media) -> dict[str, Any]:
    return {
        "type": "file",
        "mime": media.mime,
        "url": f"data:{media.mime};base64,{media.data}",
        "filename": media.name or "image",
    }
