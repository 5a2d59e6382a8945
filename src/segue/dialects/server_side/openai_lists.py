"""Lists of models and embeddings in the form that several wires share."""

from __future__ import annotations

from array import array
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import msgspec

from segue.dialects.server_side.wire_server import EmbeddingRequest, ServedModel
from segue.errors import TranscriptError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def model_fields(model: ServedModel) -> dict[str, Any]:
    return {"id": model.id, "object": "model", "created": 0, "owned_by": model.owner or "segue"}


def encode_models(
    models: Sequence[ServedModel],
    query: Mapping[str, str],
    fields: Callable[[ServedModel], dict[str, Any]] = model_fields,
) -> bytes:
    del query
    return msgspec.json.encode({"object": "list", "data": [fields(model) for model in models]})


def encode_model(model: ServedModel) -> bytes:
    return msgspec.json.encode(model_fields(model))


def decode_embedding(body: Mapping[str, Any], dimensions: str = "dimensions") -> EmbeddingRequest:
    """`dimensions`: the wire's word for the length of a vector."""
    texts, size = body.get("input"), body.get(dimensions)
    if isinstance(texts, str):
        texts = [texts]
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise TranscriptError(
            "Only texts can be embedded here: tokens belong to one model, and another may answer.",
            code="bad_embedding",
            path="input",
            hint="Send a text or a list of texts.",
        )
    return EmbeddingRequest(
        texts=tuple(texts),
        dimensions=size if isinstance(size, int) else None,
        base64=body.get("encoding_format") == "base64",
    )


def encode_embeddings(
    request: EmbeddingRequest, vectors: Sequence[Sequence[float]], *, model: str, tokens: int
) -> bytes:
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": b64encode(array("f", vector).tobytes()).decode() if request.base64 else vector,
        }
        for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return msgspec.json.encode({"object": "list", "data": data, "model": model, "usage": usage})
