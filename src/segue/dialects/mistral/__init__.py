"""Mistral chat completions: nine-character ids and a strict order of roles."""

from segue.dialects.dialect import Dialect
from segue.dialects.mistral.errors import decode_error, encode_error
from segue.dialects.mistral.reply import decode_reply, encode_reply
from segue.dialects.mistral.request import decode_request, encode_request, recognises
from segue.dialects.mistral.rules import CLIENT, MISTRAL, NAME
from segue.dialects.mistral.server import SERVER
from segue.dialects.mistral.shapes import REQUEST
from segue.dialects.mistral.stream import ReplyDecoder, ReplyEncoder

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
