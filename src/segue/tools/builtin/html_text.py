"""Web pages as text: headings, lists, links and preformatted parts, without what is only there to be seen."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Final

# Not "head" as a whole: its end may be left out, and then so would be the page.
_UNSEEN: Final = frozenset({"script", "style", "noscript", "template", "svg", "iframe", "title"})
_BLOCKS: Final = frozenset(
    re.findall(
        r"\w+",
        "address article aside blockquote br dd details div dl dt fieldset figure figcaption footer form header hr li "
        "main nav ol p pre section summary table tr ul h1 h2 h3 h4 h5 h6",
    )
)
_VOID: Final = frozenset({"br", "hr", "img", "input", "meta", "link"})


def text_of_page(html: str) -> str:
    """What a reader of the page would see, in Markdown where that is plain to write."""
    page = _Page()
    # The parser gives up on marked sections, which HTML does not have.
    page.feed(html.replace("<![", "&lt;!["))
    page.close()
    return page.text()


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._made: list[str] = []
        self._unseen = 0
        self._preformatted = 0
        self._title = ""
        self._in_title = False
        self._links: list[tuple[str, int]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "title":
            self._in_title = not self._title
        if tag in _UNSEEN:
            self._unseen += 1
        if self._unseen:
            return
        if tag in _BLOCKS:
            self._made.append("\n")
        if len(tag) == 2 and tag[0] == "h" and tag[1].isdigit():
            self._made.append(f"\n{'#' * int(tag[1])} ")
        elif tag == "li":
            self._made.append("- ")
        elif tag in ("td", "th"):
            self._made.append(" | ")
        elif tag == "pre":
            self._preformatted += 1
        elif tag == "a":
            self._links.append((dict(attrs).get("href") or "", len(self._made)))
        elif tag == "img" and (alt := dict(attrs).get("alt")):
            self._made.append(f"[image: {alt}]")

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        if tag in _UNSEEN:
            self._unseen = max(0, self._unseen - 1)
            return
        if self._unseen:
            return
        if tag == "pre":
            self._preformatted = max(0, self._preformatted - 1)
        elif tag == "a" and self._links:
            self._end_link(*self._links.pop())
        if tag in _BLOCKS and tag not in _VOID:
            self._made.append("\n")

    def _end_link(self, address: str, start: int) -> None:
        label = " ".join("".join(self._made[start:]).split())
        # A link within the page, or one labelled with its own address, adds nothing.
        if label and address and not address.startswith(("#", "javascript:")) and address != label:
            self._made[start:] = [f"[{label}]({address})"]

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self._title += data
        if self._unseen:
            return
        if not self._preformatted:
            data = re.sub(r"\s+", " ", data)
            if self._made and self._made[-1].endswith(("\n", "- ", "# ")):
                data = data.lstrip()
        self._made.append(data)

    def text(self) -> str:
        body = re.sub(r"[ \t]+\n", "\n", "".join(self._made))
        body = re.sub(r"\n{3,}", "\n\n", body).strip()
        title = " ".join(self._title.split())
        return f"{title}\n\n{body}".strip() if title and not body.startswith(f"# {title}") else body
