"""Continue: one JSON object whose history holds messages of the Chat wire, with the results beside the calls."""

from __future__ import annotations

from typing import Any

from segue.errors import TranscriptError
from segue.interop.agents.session_file import SessionFile, chat_call, fields, json_text, objects, text_of


def read_continue(document: object) -> SessionFile | None:
    _refuse_index(document)
    session = fields(document)
    if "sessionId" not in session or not isinstance(session.get("history"), list):
        return None
    history = objects(session["history"])
    answered = {text_of(fields(item.get("message")).get("toolCallId")) for item in history} - {""}
    messages: list[dict[str, Any]] = []
    body: dict[str, Any] = {}
    thought = ""
    for item in history:
        message = fields(item.get("message"))
        body |= {"model": name} if (name := text_of(fields(message.get("usage")).get("model"))) else {}
        match message.get("role"):
            case "system":
                messages.append({"role": "system", "content": _content(message.get("content"))})
            case "user":
                messages.append({"role": "user", "content": _prompt(item)})
            case "thinking":
                thought += _text(message.get("content"))
            case "assistant":
                messages.append(_reply(message, thought))
                messages += _results(item, answered)
                thought = ""
            case "tool":
                messages.append(_result(message.get("toolCallId"), _text(message.get("content"))))
        summary = text_of(item.get("conversationSummary"))
        if summary:  # it takes the place of everything before
            messages = [{"role": "user", "content": summary}]
    return SessionFile("Continue session", "openai_chat", {**body, "messages": messages})


def _refuse_index(document: object) -> None:
    listed = objects(document)
    if listed and all("sessionId" in entry and "dateCreated" in entry for entry in listed):
        raise TranscriptError(
            "This is Continue's list of sessions, not a session.",
            code="list_of_sessions",
            path="[0]",
            hint="Give the file of one session; it is beside this one and has the session's id for a name.",
        )


def _text(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(text for part in objects(content) if (text := text_of(part.get("text"))))
    return text_of(content)


def _content(content: object) -> str | list[dict[str, Any]]:
    if not isinstance(content, list):
        return text_of(content)
    parts: list[dict[str, Any]] = []
    for part in objects(content):
        match part.get("type"):
            case "text":
                parts.append({"type": "text", "text": text_of(part.get("text"))})
            case "imageUrl":
                url = text_of(fields(part.get("imageUrl")).get("url"))
                parts.append({"type": "image_url", "image_url": {"url": url}})
    return parts


def _prompt(item: dict[str, Any]) -> str | list[dict[str, Any]]:
    """What the user wrote, after the context that was attached to it."""
    content = _content(fields(item.get("message")).get("content"))
    context = [text for entry in objects(item.get("contextItems")) if (text := text_of(entry.get("content")))]
    if isinstance(content, str):
        return "\n\n".join((*context, content))
    return [*({"type": "text", "text": text} for text in context), *content]


def _reply(message: dict[str, Any], thought: str) -> dict[str, Any]:
    reply: dict[str, Any] = {"role": "assistant", "content": _text(message.get("content"))}
    calls = [
        chat_call(call.get("id"), function.get("name"), function.get("arguments"))
        for call in objects(message.get("toolCalls"))
        for function in (fields(call.get("function")),)
    ]
    return (
        reply | ({"tool_calls": calls} if calls else {}) | ({"reasoning_content": thought} if thought else {})
    )


def _results(item: dict[str, Any], answered: set[str]) -> list[dict[str, Any]]:
    return [
        _result(state.get("toolCallId"), "\n\n".join(json_text(part.get("content")) for part in output))
        for state in objects(item.get("toolCallStates"))
        if (output := objects(state.get("output"))) and text_of(state.get("toolCallId")) not in answered
    ]


def _result(call_id: object, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": text_of(call_id), "content": content}
