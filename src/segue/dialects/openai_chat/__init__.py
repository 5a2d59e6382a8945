"""OpenAI Chat Completions, and the many servers that use its wire with rules of their own."""

from __future__ import annotations

from functools import partial

from segue.dialects.dialect import Dialect
from segue.dialects.openai_chat.errors import decode_error, encode_error
from segue.dialects.openai_chat.reply import decode_reply, encode_reply
from segue.dialects.openai_chat.request import decode_request, encode_request, recognises
from segue.dialects.openai_chat.rules import variant_of
from segue.dialects.openai_chat.server import SERVER
from segue.dialects.openai_chat.shapes import request_shape
from segue.dialects.openai_chat.stream import ReplyDecoder
from segue.dialects.openai_chat.stream_encoder import ReplyEncoder
from segue.transcript.client_wire import ClientWire


def dialect(name: str) -> Dialect:
    variant = variant_of(name)
    return Dialect(
        name=variant.name,
        rules=variant.rules,
        client=ClientWire(
            rules=variant.rules,
            reply_prefix="chatcmpl-",
            plain_reasoning=variant.reads_thoughts,
            media=frozenset({"image/*"} if variant.shows_images else ()),
            cites=frozenset({"url"}),
            empty=variant.rules.blank_text,
        ),
        encode_request=partial(encode_request, variant),
        decode_request=partial(decode_request, variant),
        shape=request_shape(variant.name),
        recognises=recognises,
        decode_reply=partial(decode_reply, variant),
        encode_reply=partial(encode_reply, variant),
        new_decoder=partial(ReplyDecoder, variant),
        new_encoder=partial(ReplyEncoder, variant),
        decode_error=partial(decode_error, variant),
        encode_error=encode_error,
        server=SERVER,
        takes_schema=lambda _schema: variant.json_schema,
    )
