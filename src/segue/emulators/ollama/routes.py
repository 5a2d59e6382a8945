"""The native paths of an Ollama server: chat, models and embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.emulators.http import Request, Response, Route, json_response, stream_response
from segue.emulators.ollama import checks, embeddings, gojson, models, replies
from segue.emulators.ollama.errors import ERRORS

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator

__all__ = ["ERRORS", "ROUTES"]


def chat(request: Request, emulator: Emulator) -> Response:
    body, context = models.accepted(request, emulator, checks.complaints)
    kept = gojson.seconds(body.get("keep_alive"))
    models.load(emulator, body, context, kept)
    if not body.get("messages"):
        return json_response(replies.loaded(context, unload=kept == 0))
    reply = emulator.reply(replies.prompt_of(body, context))
    if body.get("stream") is False or context.sends_whole:
        return json_response(replies.whole(reply, body, context))
    lines = replies.stream(reply, body, context)
    return stream_response(lines, content_type=models.NDJSON, delay=reply.delay)


ROUTES: list[Route] = [
    ("GET", "/", models.alive),
    ("HEAD", "/", models.alive),
    ("POST", "/api/chat", chat),
    ("GET", "/api/tags", models.tags),
    ("POST", "/api/show", models.show),
    ("POST", "/api/pull", models.pull),
    ("DELETE", "/api/delete", models.delete),
    ("GET", "/api/ps", models.running),
    ("GET", "/api/version", models.version),
    ("POST", "/api/embed", embeddings.embed),
    ("POST", "/api/embeddings", embeddings.embed_prompt),
]
