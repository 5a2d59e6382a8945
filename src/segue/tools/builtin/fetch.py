"""The tool that reads a page of the web, as text: headings, lists, links and preformatted parts, without what is only
there to be seen. Whatever it brings was written by strangers."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Annotated, Any, Final, final
from urllib.parse import urljoin, urlsplit

from msgspec import Meta, Struct

from segue.errors import UsageError
from segue.system.worker_threads import in_thread
from segue.tools.builtin.public_addresses import NotPublicError, public_socket
from segue.tools.definition import Context, Output, Tool
from segue.tools.function_tools import as_tool, tool
from segue.tools.media_types import media_of

if TYPE_CHECKING:
    import aiohttp

    from segue.tools.builtin.output_limit import OutputLimit


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
    page = _PageText()
    # The parser gives up on marked sections, which HTML does not have.
    page.feed(html.replace("<![", "&lt;!["))
    page.close()
    return page.text()


class _PageText(HTMLParser):
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


MAX_BYTES: Final = 5_000_000
MAX_REDIRECTS: Final = 5
SECONDS: Final = 30.0
_TEXTS: Final = (
    "text/",
    "application/json",
    "application/xml",
    "application/javascript",
    "application/x-ndjson",
)


@final
class _Page(Struct, frozen=True):
    url: str
    status: int
    mime: str
    charset: str
    body: bytes
    is_whole: bool


def fetch_tool(outputs: OutputLimit, *, allow_private: bool = False) -> Tool:
    """fetch_url. `allow_private`: also what is not on the public network, this machine included."""

    @tool(effect="fetch", timeout=SECONDS + 15)
    async def fetch_url(
        url: Annotated[str, Meta(min_length=1, description="An http or https address.")], context: Context
    ) -> Output:
        """Read a page of the web: HTML as text, other text as it is, images and PDF documents as such."""
        import aiohttp  # noqa: PLC0415 - only who fetches needs it

        try:
            page = await _follow(url, allow_private=allow_private)
        except TimeoutError as error:
            raise UsageError(
                f"The page did not arrive within {SECONDS:g} seconds.",
                code="fetch_failed",
                hint="Try another source.",
            ) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if isinstance(getattr(error, "os_error", None), NotPublicError):
                raise UsageError(
                    "The page is not on the public network.",
                    code="private_address",
                    hint="Only public pages can be fetched.",
                ) from error
            raise UsageError(
                f"The page cannot be read: {error}.", code="fetch_failed", hint="Check the address."
            ) from error
        # Reading a large page takes a while, and the loop has other things to do.
        return await in_thread(lambda: _output_of(page, outputs, context))

    return as_tool(fetch_url)


async def _follow(url: str, *, allow_private: bool) -> _Page:
    """The page at the end of the redirects; each address on the way is judged when it is connected to."""
    import aiohttp  # noqa: PLC0415

    connector = aiohttp.TCPConnector(
        socket_factory=None if allow_private else public_socket, force_close=True, use_dns_cache=False
    )
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    # No cookies and no proxy from the environment: a fetch is nobody's.
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, trust_env=False, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:
        for _ in range(MAX_REDIRECTS + 1):
            _check(url)
            async with session.get(url, allow_redirects=False, headers=_HEADERS) as answer:
                target = answer.headers.get("Location")
                if answer.status not in (301, 302, 303, 307, 308) or not target:
                    return await _read(answer)
                url = urljoin(str(answer.url), target)
    raise UsageError(
        f"The page leads elsewhere more than {MAX_REDIRECTS} times.",
        code="fetch_failed",
        hint="Check the address.",
    )


_HEADERS: Final = {"User-Agent": "segue", "Accept": "text/html, text/*, application/json, image/*, */*;q=0.5"}


def _check(url: str) -> None:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError as error:
        raise UsageError(
            f"This is no address: {error}.", code="bad_url", hint="Give an http or https address."
        ) from error
    if parts.scheme not in ("http", "https") or not host:
        raise UsageError(
            f'"{url[:300]}" is no http or https address.', code="bad_url", hint="Only the web can be fetched."
        )
    if "@" in parts.netloc or "\\" in parts.netloc:
        raise UsageError("The address holds a user or a password.", code="bad_url", hint="Remove them.")


async def _read(answer: aiohttp.ClientResponse) -> _Page:
    body = bytearray()
    async for portion in answer.content.iter_chunked(65_536):
        body += portion
        if len(body) > MAX_BYTES:
            break
    return _Page(
        url=str(answer.url),
        status=answer.status,
        mime=answer.content_type,
        charset=answer.charset or "utf-8",
        body=bytes(body[:MAX_BYTES]),
        is_whole=len(body) <= MAX_BYTES,
    )


def _output_of(page: _Page, outputs: OutputLimit, context: Context) -> Output:
    media = media_of(page.body) if page.is_whole else None
    value: Any = f"{page.url}: {page.mime}, {len(page.body)} bytes."
    if media is None:
        text = _text(page)
        if text is None:
            return Output(error=f"{value} It is neither text nor an image nor a PDF document.")
        value = outputs.fit(text if page.is_whole else f"{text}\n(only the first {MAX_BYTES} bytes)", context)
    if page.status >= 400:
        return Output(error=f"{page.url} answered with status {page.status}:\n{value}")
    return Output(value or "(the page is empty)", () if media is None else (media,))


def _text(page: _Page) -> str | None:
    if page.body and not page.mime.startswith(_TEXTS) and not page.mime.endswith(("+json", "+xml")):
        return None
    try:
        text = page.body.decode(page.charset, errors="replace")
    except LookupError:
        text = page.body.decode(errors="replace")
    return text_of_page(text) if page.mime in ("text/html", "application/xhtml+xml") else text
