"""All complaints about a request: first its form, all at once, then the model, the tools, and the conversation."""

from __future__ import annotations

from typing import Any

from segue.emulators.gemini import cached_contents, proto, settings, thoughts, tools, turns
from segue.emulators.gemini.typed_contents import Body, refused
from segue.emulators.rules import Complaints, Context, rule

MOST_EMBEDDINGS = 100


def complaints(body: object, context: Context) -> Complaints:
    """About a request to generate content, whole or streamed."""
    read, faults = parsed(body, "GenerateContentRequest")
    yield from unreadable(faults)
    yield from settings.unknown_model(context, "generateContent")
    yield from cached_contents.complaints(read, context)
    read = dict(cached_contents.whole(read, context))
    yield from ids(read, context)
    yield from settings.complaints(read, context)
    yield from tools.complaints(read, context)
    yield from turns.complaints(read, context)
    yield from thoughts.complaints(read, context)
    yield from settings.too_long(read, context)


@rule("GEM-46")
def count_complaints(body: object, context: Context) -> Complaints:
    """Counting takes contents, or a whole request, but not both."""
    read, faults = parsed(body, "CountTokensRequest")
    yield from unreadable(faults)
    yield from settings.unknown_model(context, "countTokens")
    if not read.get("contents") and not read.get("generate_content_request"):
        yield refused("GEM-46", "* CountTokensRequest.contents: contents is not specified")


@rule("GEM-47")
def embed_complaints(body: object, context: Context) -> Complaints:
    read, faults = parsed(body, "EmbedContentRequest")
    yield from unreadable(faults)
    yield from settings.unknown_model(context, "embedContent")
    if not read.get("content", {}).get("parts"):
        yield refused("GEM-47", "* EmbedContentRequest.content: content is not specified")


@rule("GEM-47")
def batch_complaints(body: object, context: Context) -> Complaints:
    read, faults = parsed(body, "BatchEmbedContentsRequest")
    yield from unreadable(faults)
    yield from settings.unknown_model(context, "batchEmbedContents")
    requests = read.get("requests", [])
    if len(requests) > MOST_EMBEDDINGS:
        text = (
            f"* BatchEmbedContentsRequest.requests: at most {MOST_EMBEDDINGS} requests can be in one batch\n"
        )
        yield refused("GEM-47", text)
    if not requests:
        yield refused("GEM-47", "* BatchEmbedContentsRequest.requests: requests is not specified")


def parsed(body: object, message: str) -> tuple[dict[str, Any], list[proto.Fault]]:
    reader = proto.Reader()
    return reader.message(body, message), reader.faults


@rule("GEM-11")
@rule("GEM-14")
@rule("GEM-15")
@rule("GEM-28")
@rule("GEM-30")
def unreadable(faults: list[proto.Fault]) -> Complaints:
    """Everything that does not fit is reported in one answer, a line for each."""
    if faults:
        yield refused(_rule_of(faults[0]), "\n".join(fault.line for fault in faults))


def _rule_of(fault: proto.Fault) -> str:
    """Which rule of the rulebook the first misfit breaks."""
    if fault.path.endswith("function_response.response"):
        return "GEM-14"
    if fault.path.endswith("function_call.args"):
        return "GEM-15"
    if ".parameters" in fault.path or "response_schema" in fault.path:
        known = proto.snake_case(fault.name) in proto.SCHEMA
        return "GEM-30" if known or not fault.unknown else "GEM-28"
    return "GEM-11"


@rule("GEM-16", "L")
def ids(body: Body, context: Context) -> Complaints:
    """Reports say that Vertex and models before Gemini 3 do not know `id`; recordings of both show it accepted."""
    if context.platform != "vertex" and context.facts.get("generation") != 2:
        return
    found = [
        proto.Fault(
            f"contents[{index}].parts[{place}].{field}", "Cannot find field.", unknown=True, name="id"
        )
        for index, content in enumerate(body.get("contents", ()))
        for place, part in enumerate(content.get("parts", ()))
        for field in ("function_call", "function_response")
        if "id" in part.get(field, {})
    ]
    if found:
        yield refused("GEM-16", "\n".join(fault.line for fault in found), "L")
