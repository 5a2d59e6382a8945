"""Anthropic Messages: content blocks, results inside the next user message, signed thinking."""

from segue.dialects.anthropic_messages.errors import decode_error, encode_error
from segue.dialects.anthropic_messages.reply import decode_reply, encode_reply
from segue.dialects.anthropic_messages.request import decode_request, encode_request, recognises
from segue.dialects.anthropic_messages.rules import ANTHROPIC, CLIENT
from segue.dialects.anthropic_messages.server import SERVER
from segue.dialects.anthropic_messages.shapes import REQUEST
from segue.dialects.anthropic_messages.stream import ReplyDecoder
from segue.dialects.anthropic_messages.stream_encoder import ReplyEncoder
from segue.dialects.dialect import Dialect
from segue.dialects.schemas.strict import can_be_closed

__all__ = ["DIALECT"]

DIALECT = Dialect(
    name=ANTHROPIC.target.dialect,
    rules=ANTHROPIC,
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
    takes_schema=can_be_closed,
)
