"""The native paths of an Ollama server: chat, models and embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.emulators.http import Request, Response, Route, json_response, stream_response
from segue.emulators.ollama import checks, embeddings, gojson, management, replies

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator


def chat(request: Request, emulator: Emulator) -> Response:
    body, context = management.accepted(request, emulator, checks.complaints)
    kept = gojson.seconds(body.get("keep_alive"))
    management.load(emulator, body, context, kept)
    if not body.get("messages"):
        return json_response(replies.loaded(context, unload=kept == 0))
    reply = emulator.reply(replies.prompt_of(body, context))
    if body.get("stream") is False or context.sends_whole:
        return json_response(replies.whole(reply, body, context))
    lines = replies.stream(reply, body, context)
    return stream_response(lines, content_type=management.NDJSON, delay=reply.delay)


ROUTES: list[Route] = [
    ("GET", "/", management.alive),
    ("HEAD", "/", management.alive),
    ("POST", "/api/chat", chat),
    ("GET", "/api/tags", management.tags),
    ("POST", "/api/show", management.show),
    ("POST", "/api/pull", management.pull),
    ("DELETE", "/api/delete", management.delete),
    ("GET", "/api/ps", management.running),
    ("GET", "/api/version", management.version),
    ("POST", "/api/embed", embeddings.embed),
    ("POST", "/api/embeddings", embeddings.embed_prompt),
]
