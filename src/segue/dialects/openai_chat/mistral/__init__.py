"""Mistral chat completions: nine-character ids and a strict order of roles."""

from segue.dialects.dialect import Dialect
from segue.dialects.openai_chat.mistral.reply import (
    ReplyDecoder,
    ReplyEncoder,
    decode_error,
    decode_reply,
    encode_error,
    encode_reply,
)
from segue.dialects.openai_chat.mistral.request import REQUEST, decode_request, encode_request, recognises
from segue.dialects.openai_chat.mistral.rules import CLIENT, MISTRAL, NAME
from segue.dialects.openai_chat.mistral.server import SERVER

__all__ = ["DIALECT"]

DIALECT = Dialect(
    name=NAME,
    rules=MISTRAL,
    client=CLIENT,
    encode_request=encode_request,
    decode_request=decode_request,
    shape=REQUEST,
    recognises=recognises,
    decode_reply=decode_reply,
    encode_reply=encode_reply,
    new_decoder=ReplyDecoder,
    new_encoder=ReplyEncoder,
    decode_error=decode_error,
    encode_error=encode_error,
    server=SERVER,
)
