"""Bedrock's runtime as a server serves it. The path names the model, and whether the reply is streamed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from segue.dialects.converse.errors import headers_for
from segue.dialects.converse.rules import MOST_CACHE_POINTS
from segue.dialects.converse.stream_encoder import error_frame
from segue.dialects.converse.wire import CACHE_POINT, ENCODER
from segue.dialects.server_side.references import ReferenceField, member_name, whole_name
from segue.dialects.server_side.signed_requests import SignedRequests
from segue.dialects.server_side.wire_server import ServedModel, ServerFacts, ServerPath
from segue.dialects.streams.amazon_event_stream import CONTENT_TYPE, cut_frames

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_uri: Final = member_name("uri")


def _file(place: str) -> ReferenceField:
    return ReferenceField(
        place=f"{place}.source.s3Location",
        stands_for="file",
        names=_uri,
        marks=(b'"s3Location"',),
        message="`{name}` is in a bucket that the provider which answers here cannot read.",
        hint="Send the bytes themselves, or ask for a model of Amazon Bedrock.",
    )


REFERENCES: Final = (
    *(
        _file(f"messages[].content[]{within}.{kind}")
        for within in ("", ".toolResult.content[]")
        for kind in ("image", "document", "video", "audio")
        if not (within and kind == "audio")
    ),
    ReferenceField(
        place="promptVariables",
        stands_for="history",
        names=whole_name,
        message="The prompt that these variables belong to is kept by Amazon Bedrock, and another provider answers here.",
        hint="Send the messages themselves, or ask for a model of Amazon Bedrock.",
    ),
)


def _counted_request(body: Mapping[str, Any]) -> dict[str, Any]:
    """The request whose tokens are asked for (AWS-09)."""
    given = body.get("input")
    inner = given.get("converse") if isinstance(given, dict) else None
    return dict(inner) if isinstance(inner, dict) else dict(body)


def _model(model: ServedModel) -> dict[str, Any]:
    return {
        "modelArn": f"arn:aws:bedrock:::foundation-model/{model.id}",
        "modelId": model.id,
        "modelName": model.title or model.id,
        "providerName": model.owner or "segue",
        "inputModalities": ["TEXT", "IMAGE"] if model.images else ["TEXT"],
        "outputModalities": ["EMBEDDING" if model.embedding else "TEXT"],
        "responseStreamingSupported": not model.embedding,
        "inferenceTypesSupported": ["ON_DEMAND"],
        "modelLifecycle": {"status": "ACTIVE"},
    }


def _encode_models(models: Sequence[ServedModel], query: Mapping[str, str]) -> bytes:
    del query
    return ENCODER.encode({"modelSummaries": [_model(model) for model in models]})


SERVER = ServerFacts(
    paths=(
        ServerPath(operation="chat", pattern="/model/{model}/converse", stream=False),
        ServerPath(operation="chat", pattern="/model/{model}/converse-stream", stream=True),
        ServerPath(operation="count_tokens", pattern="/model/{model}/count-tokens"),
        ServerPath(operation="list_models", method="GET", pattern="/foundation-models"),
        ServerPath(operation="show_model", method="GET", pattern="/foundation-models/{model}"),
    ),
    prefix="/bedrock",
    client_marks=(("x-amz-date", ""), ("amz-sdk-request", ""), ("amz-sdk-invocation-id", "")),
    signatures=SignedRequests(),
    cut_frames=cut_frames,
    counted=b'"%b"' % CACHE_POINT.encode(),
    most_counted=MOST_CACHE_POINTS,
    model_field="",
    reply_model_field="",
    stream_field="",
    stream_type=CONTENT_TYPE,
    returned_headers=("x-amzn-bedrock-",),
    references=REFERENCES,
    error_frame=error_frame,
    error_headers=headers_for,
    chat_request=_counted_request,
    encode_models=_encode_models,
    encode_model=lambda model: ENCODER.encode({"modelDetails": _model(model)}),
    encode_count=lambda tokens: ENCODER.encode({"inputTokens": tokens}),
)
