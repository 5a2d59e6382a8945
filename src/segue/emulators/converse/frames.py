"""AWS event-stream frames, as the service writes them (BDR-18)."""

from __future__ import annotations

import zlib


def _header(name: str, value: str) -> bytes:
    key, text = name.encode(), value.encode()
    return len(key).to_bytes(1, "big") + key + b"\x07" + len(text).to_bytes(2, "big") + text


def _frame(headers: dict[str, str], payload: bytes) -> bytes:
    block = b"".join(_header(name, value) for name, value in headers.items())
    prelude = (16 + len(block) + len(payload)).to_bytes(4, "big") + len(block).to_bytes(4, "big")
    checked = prelude + zlib.crc32(prelude).to_bytes(4, "big") + block + payload
    return checked + zlib.crc32(checked).to_bytes(4, "big")


def event(kind: str, payload: bytes) -> bytes:
    return _frame(
        {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}, payload
    )


def exception(kind: str, payload: bytes) -> bytes:
    return _frame(
        {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}, payload
    )
