"""Media stands in addresses, and comes out of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.conversation.blocks import Media
from segue.dialects.requests.data_urls import media_from, url_of


def test_content_and_address_are_told_apart() -> None:
    assert media_from("data:image/png;base64,AAAA") == Media("image", "image/png", "AAAA")
    assert media_from("https://example.com/a.png") == Media("image", url="https://example.com/a.png")


def test_the_media_type_tells_the_kind_unless_the_place_does() -> None:
    assert media_from("data:audio/wav;base64,AAAA").kind == "audio"
    assert media_from("data:application/pdf;base64,AAAA", name="a.pdf").kind == "document"
    assert media_from("data:application/octet-stream;base64,AAAA", "image").kind == "image"


@pytest.mark.parametrize(
    ("url", "media"),
    [
        ("data:,hi%20you", Media("document", "text/plain", "aGkgeW91")),
        ("DATA:Image/PNG;charset=utf-8;BASE64,AA%3D%3D", Media("image", "image/png", "AA==")),
        ("data:image/png;base64,AA\n AA", Media("image", "image/png", "AAAA")),
        ("data:", Media("document", "text/plain", "")),
    ],
)
def test_unusual_spellings_are_read(url: str, media: Media) -> None:
    assert media_from(url) == media


@given(st.binary(min_size=1), st.sampled_from(["image/png", "application/pdf", "audio/wav"]))
def test_what_was_put_into_an_address_comes_out(content: bytes, mime: str) -> None:
    media = media_from("data:" + mime + "," + "".join(f"%{byte:02x}" for byte in content))
    assert media_from(url_of(media)) == media


@given(st.text())
def test_any_address_is_some_media(text: str) -> None:
    media_from(text)
    media_from("data:" + text)
