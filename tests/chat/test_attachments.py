"""Files, bytes and addresses become blocks; what cannot be attached is an error before anything is sent."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path

import pytest

from segue import Chat, Media, ScriptedProvider, Text, attachment
from segue.chat.attachments import LARGEST
from segue.errors import UsageError
from segue.providers import says

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


@pytest.mark.parametrize(
    ("content", "kind", "mime"),
    [
        (PNG, "image", "image/png"),
        (b"\xff\xd8\xff\xe0", "image", "image/jpeg"),
        (b"RIFF....WEBPVP8 ", "image", "image/webp"),
        (b"RIFF....WAVEfmt ", "audio", "audio/wav"),
        (b"%PDF-1.7", "document", "application/pdf"),
    ],
)
def test_bytes_are_what_they_begin_with(content: bytes, kind: str, mime: str) -> None:
    block = attachment(content)
    assert isinstance(block, Media)
    assert (block.kind, block.mime, b64decode(block.data)) == (kind, mime, content)


def test_a_file_is_what_it_holds_and_not_what_it_is_called(tmp_path: Path) -> None:
    picture, note = tmp_path / "note.txt", tmp_path / "note.md"
    picture.write_bytes(PNG)
    note.write_text("Buy milk.\n")
    assert isinstance(attachment(picture), Media)
    assert attachment(note, name="note.md") == Text('<file path="note.md">\nBuy milk.\n\n</file>')
    assert attachment(b"plain") == Text("plain")


def test_an_address_is_sent_as_one_and_nothing_is_fetched() -> None:
    block = attachment("https://example.org/a/cat.png?size=2")
    assert block == Media("image", "image/png", url="https://example.org/a/cat.png?size=2", name="cat.png")
    assert attachment("https://example.org/cat", mime="image/webp") == Media(
        "image", "image/webp", url="https://example.org/cat", name="cat"
    )


@pytest.mark.parametrize(
    "source", [b"\x00\x01\x02", "https://example.org/page", "no-such-file.png", b"\xff\xfe\x00a"]
)
def test_what_cannot_be_attached_is_an_error(source: bytes | str) -> None:
    with pytest.raises(UsageError) as refused:
        attachment(source)
    assert refused.value.code.startswith("attachment_")
    assert refused.value.hint


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    large = tmp_path / "large.bin"
    with large.open("wb") as file:
        file.truncate(LARGEST + 1)
    with pytest.raises(UsageError, match="too large"):
        attachment(large)


def test_a_message_takes_paths_bytes_texts_and_blocks_at_once(tmp_path: Path) -> None:
    path = tmp_path / "cat.png"
    path.write_bytes(PNG)
    provider = ScriptedProvider([says("A cat.")])
    with Chat("scripted/any", providers={"scripted": provider}).blocking() as chat:
        chat.send("What is this?", path, PNG, attachment("https://example.org/cat.png"))
        with pytest.raises(UsageError, match="missing"):
            chat.send("And this?", tmp_path / "missing.png")
    blocks = provider.requests[0].conversation.messages[0].blocks
    assert [type(block) for block in blocks] == [Text, Media, Media, Media]
    assert len(provider.requests) == 1
