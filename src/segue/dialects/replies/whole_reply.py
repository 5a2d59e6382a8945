"""Whole replies where a stream might have come: which answers are read so, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.conversation.events import Event
    from segue.dialects.dialect import Dialect, ReplyDecoder

_JSON: Final = "application/json"
_LINES: Final = "application/x-ndjson"


def decoder_for(dialect: Dialect, headers: Mapping[str, str], *, stream: bool = True) -> ReplyDecoder:
    """What reads the body of an answer, by its headers: a server may send a whole reply though a stream was asked for, or
    the other way round. `stream`: whether one was asked for."""
    sent = _type_in(headers.get("content-type", ""))
    streamed = _type_in(dialect.server.stream_type)
    if sent == streamed or (stream and sent != _JSON):
        return dialect.new_decoder()
    # On a wire without frames a whole reply looks like the first line of a stream.
    return WholeReplyDecoder(dialect, lines=stream and streamed == _LINES)


@final
class WholeReplyDecoder:
    """Holds a reply until all of it is there. What is no JSON object is a stream all the same, whatever its headers say."""

    def __init__(self, dialect: Dialect, *, lines: bool = False) -> None:
        """`lines`: a second line shows that it is a stream."""
        self._dialect = dialect
        self._lines = lines
        self._line_over = False
        self._pieces: list[bytes] = []
        self._stream: ReplyDecoder | None = None

    def feed(self, data: bytes) -> list[Event]:
        if self._stream is not None:
            return self._stream.feed(data)
        # Some servers send blank lines while a whole reply is written.
        if not self._pieces and not (data := data.lstrip()):
            return []
        if not self._pieces and data[:1] != b"{":
            self._stream = self._dialect.new_decoder()
            return self._stream.feed(data)
        self._pieces.append(data)
        if self._lines and (rest := data.rstrip()):
            if self._line_over or b"\n" in rest:
                self._stream = self._dialect.new_decoder()
                return self._stream.feed(b"".join(self._pieces))
            self._line_over = data.endswith(b"\n")
        elif b"\n" in data:
            self._line_over = True
        return []

    def close(self) -> list[Event]:
        if self._stream is not None:
            return self._stream.close()
        return self._dialect.decode_reply(b"".join(self._pieces))


def _type_in(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()
