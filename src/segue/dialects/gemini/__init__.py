"""Gemini generateContent: contents of parts, with thought signatures on the parts themselves."""

from segue.dialects.dialect import Dialect
from segue.dialects.gemini.errors import decode_error, encode_error
from segue.dialects.gemini.reply import decode_reply, encode_reply
from segue.dialects.gemini.request import decode_request, encode_request, recognises
from segue.dialects.gemini.rules import CLIENT, GEMINI, NAME
from segue.dialects.gemini.server import SERVER
from segue.dialects.gemini.shapes import REQUEST
from segue.dialects.gemini.stream import ReplyDecoder, ReplyEncoder

__all__ = ["DIALECT"]

DIALECT = Dialect(
    name=NAME,
    rules=GEMINI,
    client=CLIENT,
    encode_request=encode_request,
    messages_field="contents",
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
