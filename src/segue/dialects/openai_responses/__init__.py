"""OpenAI Responses: a list of items, with sealed reasoning."""

from segue.dialects.dialect import Dialect
from segue.dialects.openai_responses.errors import decode_error, encode_error
from segue.dialects.openai_responses.reply import decode_reply
from segue.dialects.openai_responses.reply_encoder import encode_reply
from segue.dialects.openai_responses.request import decode_request, encode_request, recognises
from segue.dialects.openai_responses.rules import CLIENT, NAME, OPENAI_RESPONSES
from segue.dialects.openai_responses.server import SERVER
from segue.dialects.openai_responses.shapes import REQUEST
from segue.dialects.openai_responses.stream import ReplyDecoder
from segue.dialects.openai_responses.stream_encoder import ReplyEncoder

__all__ = ["DIALECT"]

DIALECT = Dialect(
    name=NAME,
    rules=OPENAI_RESPONSES,
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
