"""Ollama's own /api/chat: one JSON object per line."""

from segue.dialects.dialect import Dialect
from segue.dialects.openai_chat.ollama.reply import (
    ReplyDecoder,
    ReplyEncoder,
    decode_error,
    decode_reply,
    encode_error,
    encode_reply,
)
from segue.dialects.openai_chat.ollama.request import REQUEST, decode_request, encode_request, recognises
from segue.dialects.openai_chat.ollama.rules import CLIENT, NAME, OLLAMA
from segue.dialects.openai_chat.ollama.server import SERVER

__all__ = ["DIALECT"]

DIALECT = Dialect(
    name=NAME,
    rules=OLLAMA,
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
