"""Amazon Bedrock's Converse: blocks named by their one field, results in the next user message, binary event frames."""

from segue.dialects.converse.errors import decode_error, encode_error
from segue.dialects.converse.reply import decode_reply, encode_reply
from segue.dialects.converse.request import decode_request, encode_request, recognises
from segue.dialects.converse.rules import CLIENT, CONVERSE
from segue.dialects.converse.server import SERVER
from segue.dialects.converse.shapes import REQUEST
from segue.dialects.converse.stream import ReplyDecoder
from segue.dialects.converse.stream_encoder import ReplyEncoder
from segue.dialects.dialect import Dialect
from segue.dialects.schemas.strict import can_be_closed

__all__ = ["DIALECT"]

DIALECT = Dialect(
    name=CONVERSE.target.dialect,
    rules=CONVERSE,
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
