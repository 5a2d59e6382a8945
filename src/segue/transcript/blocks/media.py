"""Showing media where a target can see it, and a description of it where it cannot.

Only the transcript changes. The conversation keeps the original, so a later target that can see it, will.
"""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING

from msgspec import structs

from segue.conversation.blocks import Code, Media, Text
from segue.conversation.json_safe import encodable
from segue.transcript.rules import accepts_media, is_base64, media_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segue.transcript.repairs import Kind
    from segue.transcript.rules import MediaRules

_TEXT_TYPES = frozenset(
    f"application/{name}" for name in ("json", "xml", "yaml", "x-yaml", "toml", "javascript", "sql", "x-sh")
)
"""Media types that are text, besides `text/*`."""
_STANDARD = str.maketrans("-_", "+/")


def with_standard_data(media: Media) -> Media:
    """Media with its data in the alphabet of base64 that all targets read, and padded. Google's SDK writes the one for URLs."""
    data = media.data
    if len(data) % 4 == 0 and "-" not in data and "_" not in data:
        return media
    standard = data.translate(_STANDARD).rstrip("=")
    standard += "=" * (-len(standard) % 4)
    return structs.replace(media, data=standard) if is_base64(standard) else media


def without_lost_title(media: Media, rules: MediaRules) -> Media:
    """Media as the target is shown it: a document without its title where there is no place for one."""
    if rules.titles or media.kind != "document" or not media.name:
        return media
    return structs.replace(media, name="")


def stand_in(media: Media) -> tuple[Text, Kind]:
    """What a target reads of media that it cannot be shown, and what that is called: a document of text is text."""
    text = document_text(media)
    return (describe(media), "media_described") if text is None else (text, "document_as_text")


def document_text(media: Media) -> Text | None:
    """A document with its title, if it is nothing but text."""
    mime = media_type(media).partition(";")[0].strip()
    if not media.data or not (mime.startswith("text/") or mime in _TEXT_TYPES):
        return None
    try:
        text = b64decode(media.data, validate=True).decode()
    except ValueError:
        return None
    title = f' "{encodable(media.name)}"' if media.name else ""
    return Text(f"[{media.kind}{title}, {encodable(mime)}]\n{text}")


def describe(media: Media) -> Text:
    """A sentence in place of what cannot be shown."""
    name = f' "{encodable(media.name)}"' if media.name else ""
    if media.data and not is_base64(media.data):
        extent = ", its data is no base64"
    elif media.data:
        extent = f", {len(media.data) * 3 // 4} bytes"
    elif media.url:
        extent = f", at {encodable(media.url)}"
    else:
        extent = ", empty"
    return Text(
        f"[{media.kind}{name}, {encodable(media_type(media))}{extent}: not shown, this model cannot see it here]"
    )


def describe_in_reply(media: Media) -> str:
    """A line in place of what the model made and the client's wire cannot hold."""
    if (text := document_text(media)) is not None:
        return f"\n{text.text}\n"
    extent = f"{len(media.data) * 3 // 4} bytes" if media.data else f"at {encodable(media.url)}"
    return f"\n[{media.kind}, {encodable(media_type(media))}, {extent}: this API cannot carry it]\n"


def written_out(code: Code) -> Text:
    fence = "```"
    while fence in code.code:
        fence += "`"
    return Text(f"{fence}{code.language}\n{code.code}\n{fence}")


def caption(media: Media, tool: str, call_id: str) -> Text:
    """What stands before media that had to leave a tool result."""
    return Text(f"[{media.kind} returned by {tool}, call {call_id}]")


def sort_media(
    shown: Iterable[Media], rules: MediaRules, *, failed: bool
) -> tuple[list[Media], list[Media], list[Media]]:
    """Media of a tool result: those that stay in it, those the user can show instead, and those nobody can."""
    stay: list[Media] = []
    move: list[Media] = []
    lost: list[Media] = []
    for media in map(with_standard_data, shown):
        by_content = bool(media.data) or rules.urls_in_results
        if by_content and accepts_media(rules.tool, rules, media) and (rules.in_errors or not failed):
            stay.append(media)
        elif document_text(media) is None and accepts_media(rules.user, rules, media):
            move.append(media)
        else:
            lost.append(media)
    return stay, move, lost
