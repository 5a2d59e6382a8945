"""opencode: a document that `opencode import` takes. Its own database is never written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from segue.conversation.blocks import Media
from segue.interop.session_writers.steps import ModelReply, Prompt, StoredCall
from segue.interop.session_writers.written_session import milliseconds, short_id

if TYPE_CHECKING:
    from segue.interop.session_writers.written_session import SessionPlan

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
