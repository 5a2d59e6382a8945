"""The frame of every page: navigation, state, footer; and the pages for those who are not logged in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final, final

from msgspec import Struct

from segue.errors import InvalidRequestError
from segue.gateway.requests.web import WebResponse
from segue.inspector.markup import marks
from segue.inspector.markup.html import Element, Node, e, html_of

ROOT: Final = "/segue/inspector"
FOR_EVER: Final = "public, max-age=31536000, immutable"
"""How long a browser keeps a file: its address changes with its content."""
_STATIC: Final = re.compile(rf"{ROOT}/static/([0-9a-f]{{12}})/([a-z.-]+)")
_KINDS: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_NAV: Final = (
    ("conversations", "Conversations", "/"),
    ("approvals", "Approvals", "/approvals"),
    ("errors", "Errors", "/errors"),
    ("routes", "Routes", "/routes"),
    ("keys", "Keys and spend", "/keys"),
    ("doctor", "Doctor", "/doctor"),
)


@final
class Page(Struct, kw_only=True):
    """One page: what a person sees, and the same as data."""

    title: str
    tab: str
    body: Node
    data: Any = None
    foot: Node = None
    keys: Sequence[tuple[str, str]] = ()
    """Keys of this page, and what they do."""
    live: bool = False
    status: int = 200
    download: str = ""
    """The name of the file that its data, as bytes, are saved under."""


@final
class PageFrame(Struct, frozen=True, kw_only=True):
    """What the frame says of the gateway and of who looks at it."""

    address: str
    place: str
    """`this machine only`, or who is logged in."""
    content: str
    csrf: str
    tabs: tuple[str, ...]
    json_path: str = ""
    live: bool = True
    count: int = 0
    """Of what happened, when the page was made: what happens after it is fetched by the page."""


@lru_cache(maxsize=32)
def asset(name: str) -> tuple[bytes, str, str] | None:
    """A file of the page: its bytes, its type, and the digest in its address. None if there is none."""
    kind = _KINDS.get(name.rpartition(".")[2])
    if kind is None or "/" in name or name.startswith("."):
        return None
    held = files("segue.inspector").joinpath("static", name)
    if not held.is_file():
        return None
    return held.read_bytes(), kind, _digest()


@lru_cache(maxsize=1)
def _digest() -> str:
    """Of all files together: modules of the script name each other by relative addresses."""
    folder = files("segue.inspector").joinpath("static")
    made = sha256()
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        made.update(file.name.encode() + file.read_bytes())
    return made.hexdigest()[:12]


def served_asset(path: str) -> WebResponse | None:
    """A file of the page under its address; None if the path is not one of a file."""
    found = _STATIC.fullmatch(path)
    if found is None:
        return None
    held = asset(found[2])
    if held is None or held[2] != found[1]:
        raise InvalidRequestError("There is no such file.", code="not_found", status=404)
    return WebResponse(headers={"content-type": held[1]}, body=held[0])


def asset_path(name: str) -> str:
    return f"{ROOT}/static/{_digest()}/{name}"


def document(page: Page, frame: PageFrame) -> bytes:
    keys = [*page.keys, ("?", "all keys")]
    foot = e(
        "footer",
        page.foot,
        e("span", _hints(page.keys), cls="end wide hints") if page.keys else None,
        e("span", "this page as ", e("a", "JSON", cls="link", href=frame.json_path), cls=None)
        if page.data is not None and frame.json_path
        else None,
        cls="foot",
    )
    body = [
        e("a", "Skip to the page", cls="skip", href="#main"),
        _top(page, frame),
        e(
            "main",
            page.body,
            foot,
            id="main",
            tabindex="-1",
            data_page=page.tab,
            data_live=str(frame.count) if page.live else None,
        ),
        e("div", role="status", aria_live="polite", cls="hide", id="announce"),
        _help(keys),
    ]
    return _whole(page.title, body, csrf=frame.csrf)


def _hints(keys: Sequence[tuple[str, str]]) -> list[Node]:
    return [[" · " if place else None, e("kbd", name), f" {does}"] for place, (name, does) in enumerate(keys)]


def _top(page: Page, frame: PageFrame) -> Element:
    shown = [
        e("a", title, href=ROOT + path, aria_current="page" if name == page.tab else None)
        for name, title, path in _NAV
        if name in frame.tabs
    ]
    state = None
    if frame.live:
        state = e(
            "span",
            e("span", marks.dot("live" if page.live else "idle"), cls="livedot"),
            e("span", "live" if page.live else "", id="livestate"),
            cls="state on" if page.live else "hide",
            id="live",
        )
    return e(
        "header",
        e("a", "segue", cls="brand", href=f"{ROOT}/"),
        e("nav", shown, aria_label="Pages"),
        e(
            "div",
            e(
                "span",
                " · ".join(part for part in (frame.address, frame.place, frame.content) if part),
                cls="wide",
            ),
            state,
            e("button", e("kbd", "p"), " pause", cls="plain wide", type="button", data_key="p")
            if page.live
            else None,
            e("button", e("kbd", "?"), " keys", cls="plain wide", type="button", data_key="?"),
            cls="end",
        ),
        cls="top",
    )


def _help(keys: Sequence[tuple[str, str]]) -> Element:
    rows = [[e("dt", e("kbd", name)), e("dd", does)] for name, does in keys]
    return e(
        "dialog",
        e("h2", "Keys", id="help-title"),
        e("dl", rows, cls="kv"),
        e("p", e("button", "Close", cls="btn", type="button", data_close=True), cls="gap16"),
        id="help",
        aria_labelledby="help-title",
    )


def _whole(title: str, body: Node, *, csrf: str = "") -> bytes:
    page = e(
        "html",
        e(
            "head",
            e("meta", charset="utf-8"),
            e("meta", name="viewport", content="width=device-width, initial-scale=1"),
            e("meta", name="color-scheme", content="light dark"),
            e("meta", name="segue-token", content=csrf) if csrf else None,
            e("title", f"{title} · segue inspector"),
            e("link", rel="icon", href=asset_path("icon.svg")),
            e("link", rel="stylesheet", href=asset_path("inspector.css")),
            e("script", type="module", src=asset_path("inspector.js")),
        ),
        e("body", body),
        lang="en",
    )
    return b"<!doctype html>\n" + html_of(page).encode("utf-8", "replace")


def login_page(*, has_callers: bool, said: str = "") -> bytes:
    """`has_callers`: a key is asked for, else a link of `segue inspect`."""
    form: Node = e(
        "p",
        "Open it with ",
        e("code", "segue inspect"),
        ", which prints a link that works once, for a minute.",
        cls="q",
        id="how",
    )
    if has_callers:
        form = e(
            "form",
            e("label", "Key of a caller or operator", for_="key", cls="q"),
            e("input", type="password", id="key", name="key", autocomplete="off", required=True, cls="field"),
            e("button", "Log in", cls="btn main", type="submit"),
            id="login",
            cls="login",
        )
    body = e(
        "main",
        e("h1", "segue inspector"),
        form,
        e("p", said, id="said", role="status", cls="bad"),
        e("noscript", e("p", "Logging in needs JavaScript; the pages themselves do not.", cls="q")),
        cls="narrow",
        id="main",
        data_page="login",
    )
    return _whole("Log in", body)


def welcome_page(*, inspector: bool, wires: Sequence[tuple[str, str]]) -> bytes:
    """What a browser gets at /."""
    rows = [e("tr", e("td", title), e("td", e("code", path))) for title, path in wires]
    body = e(
        "main",
        e("h1", "segue gateway"),
        e(
            "p",
            "Programs talk to any language model through this address, in the form of any provider’s API. "
            "It is no page for people; the ",
            e("a", "inspector", href=f"{ROOT}/", cls="link") if inspector else "inspector",
            " is." if inspector else " is switched off (gateway.inspect.enabled).",
            cls="lead",
        ),
        e(
            "p",
            e("code", "segue run claude"),
            " starts a program through it, ",
            e("code", "segue env codex"),
            " prints the settings of one, ",
            e("code", "segue inspect"),
            " opens the inspector.",
            cls="q gap16",
        ),
        e(
            "table",
            e("thead", e("tr", e("th", "API"), e("th", "Path"))),
            e("tbody", rows),
            cls="tight gap16",
        ),
        cls="narrow",
        id="main",
    )
    return _whole("Gateway", body)


def crumb(*parts: tuple[str, str]) -> Element:
    """Where the page stands; a part without an address is the page itself."""
    shown: list[Node] = []
    for number, (title, path) in enumerate(parts):
        shown.append(" / " if number else None)
        shown.append(e("a", title, href=ROOT + path) if path else e("span", title))
    return e("nav", shown, cls="crumb", aria_label="Where this page stands")


def conversation_tabs(conversation: str, requests: int, now: str) -> Element:
    """The pages of one conversation. `now`: the one that is shown."""
    pages = (
        ("chat", "Chat", ""),
        ("requests", f"Requests {requests}", "/requests"),
        ("cache", "Cache and cost", "/cache"),
        ("as", "As another model", "/as"),
    )
    return e(
        "nav",
        [
            e("a", title, href=f"{ROOT}/c/{conversation}{path}", aria_current="true" if name == now else None)
            for name, title, path in pages
        ],
        cls="tabs under",
        aria_label="Views of this conversation",
    )


def head(title: Node, line: Node, *controls: Node) -> Element:
    return e(
        "div",
        e("h1", title),
        e("p", line, cls="q"),
        e("div", controls, cls="row ctl") if any(controls) else None,
        cls="head",
    )


def button(
    title: Node, action: str = "", *, main: bool = False, quiet: bool = False, **data: str | int | bool | None
) -> Element:
    """`action`: what the page's script does with it."""
    kind = "btn main" if main else "btn quiet" if quiet else "btn"
    given = {f"data_{name}": value for name, value in data.items()}
    return e("button", title, type="button", cls=kind, data_action=action or None, **given)


def link_button(
    title: Node, path: str, *, main: bool = False, quiet: bool = False, **more: str | None
) -> Element:
    kind = "btn main" if main else "btn quiet" if quiet else "btn"
    return e("a", title, cls=kind, href=path, **more)


def table(headings: Sequence[Node], rows: Sequence[Node], *, kind: str = "", label: str = "") -> Element:
    """A table that scrolls in its own frame where it is too wide. A heading that begins with > is for figures, at the right."""
    cells = [
        e(
            "th",
            one[1:] if isinstance(one, str) and one.startswith(">") else one,
            scope="col",
            cls="r" if isinstance(one, str) and one.startswith(">") else None,
        )
        for one in headings
    ]
    return e(
        "div",
        e("table", e("thead", e("tr", cells)), e("tbody", rows), cls=kind or None),
        cls="scroll",
        tabindex="0",
        role="region",
        aria_label=label or "Table",
    )


def figure(title: str, value: Node, small: str = "", *, kind: str = "") -> Element:
    return e(
        "div",
        e("dt", title),
        e("dd", value, " " if small else None, e("small", small) if small else None, cls=kind or None),
    )


def section(
    title: Node, *content: Node, aside: Node = None, end: Node = None, id_: str | None = None
) -> Element:
    return e(
        "section",
        e(
            "div",
            e("h2", title),
            e("span", aside, cls="q s") if aside is not None else None,
            e("span", end, cls="end") if end is not None else None,
            cls="sub",
        ),
        content,
        id=id_,
        cls="sec",
    )
