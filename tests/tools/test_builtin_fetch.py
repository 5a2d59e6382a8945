"""Pages are fetched from the public web only, and told as text."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.errors import UsageError
from segue.tools.builtin import builtin_tools, fetch, public_addresses
from segue.tools.builtin.fetch import text_of_page
from segue.tools.builtin.public_addresses import is_public
from segue.tools.definition import Tool
from tools.tool_runs import run_tool

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 8


class Site(BaseHTTPRequestHandler):
    """Pages of every kind, on this machine."""

    pages: ClassVar[dict[str, tuple[int, dict[str, str], bytes]]] = {
        "/text": (200, {"Content-Type": "text/plain; charset=latin-1"}, "né".encode("latin-1")),
        "/odd": (200, {"Content-Type": "text/plain; charset=nonsense"}, b"fine"),
        "/html": (200, {"Content-Type": "text/html"}, b"<title>T</title><p>Hello <b>you</b></p>"),
        "/json": (200, {"Content-Type": "application/json"}, b'{"a": 1}'),
        "/image": (200, {"Content-Type": "image/png"}, PNG),
        "/bytes": (200, {"Content-Type": "application/octet-stream"}, b"\x00\x01"),
        "/long": (200, {"Content-Type": "text/plain"}, b"x" * 3_000),
        "/missing": (404, {"Content-Type": "text/plain"}, b"nothing here"),
        "/once": (302, {"Location": "/text"}, b""),
        "/forever": (302, {"Location": "/forever"}, b""),
        "/file": (302, {"Location": "file:///etc/passwd"}, b""),
        "/empty": (200, {"Content-Type": "text/plain"}, b""),
    }

    visits: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.visits.append(self.path)
        status, headers, body = self.pages[self.path]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def fetcher(directory: Path, *, allow_private: bool) -> Tool:
    tools = builtin_tools(
        directory, outputs=directory / "out", allow_private=allow_private, max_characters=1_000
    )
    return next(tool for tool in tools if tool.name == "fetch_url")


def test_pages_are_told_by_their_kind(site: str, tmp_path: Path) -> None:
    fetch = fetcher(tmp_path, allow_private=True)
    assert run_tool(fetch, {"url": f"{site}/text"}).value == "né"
    assert run_tool(fetch, {"url": f"{site}/odd"}).value == "fine"
    assert run_tool(fetch, {"url": f"{site}/html"}).value == "T\n\nHello you"
    assert run_tool(fetch, {"url": f"{site}/json"}).value == '{"a": 1}'
    assert run_tool(fetch, {"url": f"{site}/image"}).media[0].mime == "image/png"
    assert run_tool(fetch, {"url": f"{site}/once"}).value == "né"
    assert run_tool(fetch, {"url": f"{site}/empty"}).value == "(the page is empty)"
    assert "omitted" in run_tool(fetch, {"url": f"{site}/long"}).value
    assert "neither text" in str(run_tool(fetch, {"url": f"{site}/bytes"}).error)
    missing = run_tool(fetch, {"url": f"{site}/missing"}).error
    assert missing is not None
    assert "status 404" in missing
    assert "nothing here" in missing


def test_a_page_has_bounds(site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "MAX_BYTES", 100)
    assert run_tool(fetcher(tmp_path, allow_private=True), {"url": f"{site}/long"}).value == (
        "x" * 100 + "\n(only the first 100 bytes)"
    )


@pytest.mark.parametrize("path", ["/forever", "/file"])
def test_a_redirect_is_judged_like_an_address(site: str, tmp_path: Path, path: str) -> None:
    with pytest.raises(UsageError):
        run_tool(fetcher(tmp_path, allow_private=True), {"url": f"{site}{path}"})


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://example.org/",
        "example.org",
        "",
        "http://",
        "http://[bad/",
        "http://example.org:99999/",
        "http://user:secret@example.org/",
        "http://example.org\\@127.0.0.1/",
    ],
)
def test_what_is_no_public_page_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(UsageError):
        run_tool(fetcher(tmp_path, allow_private=False), {"url": url or " "})


PRIVATE = "127.0.0.1 localhost 127.1 2130706433 0x7f000001 0 [::1] [::ffff:127.0.0.1] 10.0.0.1 169.254.169.254 192.168.1.1"
PRIVATE += " 100.64.0.1 [fd00::1] [fe80::1%25lo] [64:ff9b::7f00:1] [fec0::1] [::127.0.0.1] 0.0.0.0 [::] 127。0。0。1 ①②⑦.⓪.⓪.①"


@pytest.mark.parametrize("host", PRIVATE.split())
def test_nothing_behind_our_walls_is_reached(site: str, tmp_path: Path, host: str) -> None:
    port = site.rpartition(":")[2]
    with pytest.raises(UsageError, match=r"public network|cannot be read|no address"):
        run_tool(fetcher(tmp_path, allow_private=False), {"url": f"http://{host}:{port}/text"})


LOOPBACK = int(IPv4Address("127.0.0.1"))
DIGITS = ["0123456789", "０１２３４５６７８９", "⓪①②③④⑤⑥⑦⑧⑨", "𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗", "⁰¹²³⁴⁵⁶⁷⁸⁹"]
DOTS = ".。．｡"


@st.composite
def loopback_spellings(draw: st.DrawFn) -> str:
    """This machine, as the host of a URL: in numbers, in other scripts, or inside an IPv6 address."""
    number = draw(st.sampled_from([LOOPBACK, LOOPBACK, 0]) | st.integers(127 << 24, (128 << 24) - 1))
    high, low = number >> 16, number & 0xFFFF
    embedded = [
        *(f"::ffff:{high:x}:{low:x}", f"::{high:x}:{low:x}", f"::ffff:0:{high:x}:{low:x}"),
        *(f"64:ff9b::{high:x}:{low:x}", f"64:ff9b:1::{high:x}:{low:x}", f"2002:{high:x}:{low:x}::1"),
        *(f"2001:0:808:808::{high ^ 0xFFFF:x}:{low ^ 0xFFFF:x}", f"2001:0:{high:x}:{low:x}::f7f7:f7f7"),
        *(f"2606:4700::5efe:{high:x}:{low:x}", f"2606:4700::200:5efe:{high:x}:{low:x}", "::1", "fec0::1"),
    ]
    if draw(st.booleans()):
        return f"[{IPv6Address(draw(st.sampled_from(embedded)))}]"
    octets = number.to_bytes(4)
    kept = draw(st.sampled_from([0, 1, 2, 3]))
    parts = [*octets[:kept], int.from_bytes(octets[kept:])]
    written = [draw(st.sampled_from(["{}", "{:#x}", "0{:o}"])).format(part) for part in parts]
    if draw(st.booleans()):
        written = [str(octet) for octet in octets]
    text = written[0] + "".join(draw(st.sampled_from(DOTS)) + part for part in written[1:])
    return "".join(draw(st.sampled_from(DIGITS))[int(sign)] if sign in DIGITS[0] else sign for sign in text)


@given(host=loopback_spellings())
def test_no_spelling_of_this_machine_reaches_it(site: str, host: str) -> None:
    tool = fetcher(Path.cwd(), allow_private=False)
    before = len(Site.visits)
    with pytest.raises(UsageError):
        run_tool(tool, {"url": f"http://{host}:{site.rpartition(':')[2]}/text"})
    assert len(Site.visits) == before


@pytest.mark.skipif(sys.platform != "linux", reason="only there is all of 127.0.0.0/8 this machine")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127。0。0。1", "[::ffff:127.0.0.1]", "0"])
def test_a_public_page_does_not_lead_behind_our_walls(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    port = site.rpartition(":")[2]
    # One address of this machine stands for a public one.
    monkeypatch.setattr(public_addresses, "is_public", lambda address: address == "127.0.0.9")
    monkeypatch.setitem(
        Site.pages, "/inward", (302, {"Location": f"http://{quote(host, safe='[]:.')}:{port}/text"}, b"")
    )
    before = len(Site.visits)
    with ThreadingHTTPServer(("127.0.0.9", 0), Site) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        with pytest.raises(UsageError):
            run_tool(
                fetcher(tmp_path, allow_private=False),
                {"url": f"http://127.0.0.9:{server.server_port}/inward"},
            )
        server.shutdown()
        thread.join()
    assert Site.visits[before:] == ["/inward"]


def test_a_name_is_judged_by_the_very_addresses_it_is_connected_to(site: str, tmp_path: Path) -> None:
    before = len(Site.visits)
    with pytest.raises(UsageError) as refused:
        run_tool(
            fetcher(tmp_path, allow_private=False),
            {"url": f"http://localhost:{site.rpartition(':')[2]}/text"},
        )
    assert refused.value.code == "private_address"
    assert len(Site.visits) == before


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2606:4700::1111", True),
        ("::ffff:8.8.8.8", True),
        ("224.0.0.1", False),
        ("2002:7f00:1::", False),
        ("64:ff9b::a00:1", False),
        ("fe80::1%eth0", False),
        ("0.0.0.0", False),  # noqa: S104
        ("fec0::1", False),
        ("::8.8.8.8", False),
        ("3fff::1", False),
        ("64:ff9b::8.8.8.8", True),
        ("2606:4700::5efe:8.8.8.8", True),
        ("2606:4700::5efe:10.0.0.1", False),
        ("nonsense", False),
        ("192.0.0.192", False),
        ("::ffff:192.0.0.192", False),
        ("168.63.129.16", False),
        ("2002:a83f:8110::", False),
        ("168.63.129.17", True),
    ],
)
def test_addresses_are_public_or_not(address: str, public: bool) -> None:
    assert is_public(address) is public


def test_a_page_becomes_what_a_reader_would_see() -> None:
    page = """<!doctype html><head><title>The
    title</title><style>p {color: red}</style><body><script>alert(1)</script>
    <h1>Heading</h1><p>One &amp;
    two <a href="https://example.org/x">a <b>link</b></a> and <a href="#here">here</a>.</p>
    <ul><li>first</li><li>second</li></ul><pre>  kept
    as it is</pre><table><tr><td>1</td><td>2</td></tr></table><img alt="a cat" src="c.png">"""
    assert text_of_page(page) == (
        "The title\n\n# Heading\n\nOne & two [a link](https://example.org/x) and here.\n\n- first\n\n- second\n\n"
        "  kept\n    as it is\n\n | 1 | 2\n\n[image: a cat]"
    )


@given(
    st.text()
    | st.lists(
        st.sampled_from(
            [
                "<p>",
                "</p>",
                "<a href=x>",
                "</a>",
                "<!--",
                "<![",
                "<![CDATA[",
                "]]>",
                "<!",
                "<?",
                "</",
                "<pre",
                ">",
                "x",
                "&#",
            ]
        )
    ).map("".join)
)
def test_no_page_however_broken_stops_the_reader(html: str) -> None:
    text_of_page(html)
