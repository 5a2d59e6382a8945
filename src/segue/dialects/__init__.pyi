# Written by python -m scripts.namespaces --write

from segue.dialects.card import ModelCard
from segue.dialects.dialect import DecodedRequest, Dialect, EncodedRequest, ReplyDecoder, ReplyEncoder, RequestEncoder
from segue.dialects.registry import DIALECTS, recognise

__all__ = [
    "DIALECTS",
    "DecodedRequest",
    "Dialect",
    "EncodedRequest",
    "ModelCard",
    "ReplyDecoder",
    "ReplyEncoder",
    "RequestEncoder",
    "recognise",
]
