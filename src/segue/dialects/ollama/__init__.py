"""Ollama's own /api/chat: one JSON object per line."""

from segue.dialects.dialect import Dialect
from segue.dialects.ollama.errors import decode_error, encode_error
from segue.dialects.ollama.reply import decode_reply, encode_reply
from segue.dialects.ollama.request import decode_request, encode_request, recognises
from segue.dialects.ollama.rules import CLIENT, NAME, OLLAMA
from segue.dialects.ollama.server import SERVER
from segue.dialects.ollama.shapes import REQUEST
from segue.dialects.ollama.stream import ReplyDecoder, ReplyEncoder

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
