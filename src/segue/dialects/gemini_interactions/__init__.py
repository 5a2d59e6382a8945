"""Gemini Interactions: a list of steps, with signed thoughts as steps of their own."""

from segue.dialects.dialect import Dialect
from segue.dialects.gemini_interactions.errors import decode_error, encode_error
from segue.dialects.gemini_interactions.reply import decode_reply
from segue.dialects.gemini_interactions.reply_encoder import encode_reply
from segue.dialects.gemini_interactions.request import decode_request, encode_request, recognises
from segue.dialects.gemini_interactions.rules import CLIENT, GEMINI_INTERACTIONS, NAME
from segue.dialects.gemini_interactions.server import SERVER
from segue.dialects.gemini_interactions.shapes import REQUEST
from segue.dialects.gemini_interactions.stream import ReplyDecoder
from segue.dialects.gemini_interactions.stream_encoder import ReplyEncoder

__all__ = ["DIALECT"]

DIALECT = Dialect(
    name=NAME,
    rules=GEMINI_INTERACTIONS,
    client=CLIENT,
    encode_request=encode_request,
    messages_field="input",
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
