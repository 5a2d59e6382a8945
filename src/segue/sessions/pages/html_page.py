"""A session as one HTML file to read and pass on: no scripts, nothing fetched, everything escaped.

What a model wrote is shown as the Markdown that it is, what the user wrote as it was written."""

from __future__ import annotations

import re
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Final, assert_never

from segue.conversation.blocks import Code, Media, Reasoning, Text, ToolCall, ToolResult, status_of
from segue.conversation.json_safe import encodable
from segue.sessions.pages.markdown import Aside, page_of
from segue.text.terminal_text import sanitised
from segue.transcript.blocks.media import describe
from segue.transcript.blocks.value_text import arguments_of, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it import MarkdownIt

    from segue.conversation.blocks import Block
    from segue.conversation.message import Message
    from segue.sessions.entries import Record
    from segue.sessions.state import State

_FENCE: Final = re.compile(r"^```[^\n`]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)
_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BASE64: Final = re.compile(r"[A-Za-z0-9+/=\s]*")
_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin-bottom: 0; }
h2 { font-size: .9rem; margin: 1.6rem 0 .3rem; opacity: .65; }
.user { border-left: 3px solid #4a7fd4; padding-left: .8rem; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; }
.markdown { overflow-wrap: anywhere; } .markdown > * { margin: .5rem 0; }
.markdown :is(h1, h2, h3, h4, h5, h6) { font-size: 1.05rem; opacity: 1; }
.markdown :is(th, td) { border: 1px solid #8886; padding: .2rem .6rem; text-align: left; } table { border-collapse: collapse; }
.markdown blockquote { border-left: 3px solid #8886; margin-left: 0; padding-left: .8rem; }
code { font-size: .85em; }
pre { overflow-x: auto; padding: .6rem; border: 1px solid #8886; border-radius: 4px; font-size: .85rem; }
details { margin: .4rem 0; } summary { cursor: pointer; overflow-wrap: anywhere; }
.aside { font-size: .85rem; opacity: .75; margin: .6rem 0; } .failed { color: #b3261e; opacity: 1; }
.repair { border-left: 3px solid #c98a00; padding-left: .8rem; }
img { max-width: 100%; }
"""


def as_html(state: State, records: Sequence[Record] = ()) -> str:
    """`records`: of the same session; with them switches, repairs and errors stand in their places."""
    title = escape(_line(state.title) or "Conversation")
    results = {
        block.call_id: block
        for message in state.history.messages
        for block in message.blocks
        if type(block) is ToolResult
    }
    shown: set[str] = set()
    body = [f"<h1>{title}</h1>", f'<p class="aside">{escape(_line(state.model))}</p>']
    if state.conversation.system:
        body.append(f"<details><summary>System prompt</summary>{_text(state.conversation.system)}</details>")
    body += [
        _aside(item) if isinstance(item, Aside) else _message(item, results, shown)
        for item in page_of(state, records)
    ]
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(part for part in body if part)
        + "\n</body>\n</html>\n"
    )


def _aside(aside: Aside) -> str:
    kind = "failed" if aside.failed else "repair" if "repair" in aside.text else ""
    return f'<p class="aside {kind}">{escape(_line(aside.text))}</p>'


def _message(message: Message, results: dict[str, ToolResult], shown: set[str]) -> str:
    is_markdown = message.speaker == "model"
    blocks = [
        _markdown(block.text) if is_markdown and type(block) is Text else _block(block, results, shown)
        for block in message.blocks
    ]
    content = "\n".join(block for block in blocks if block)
    if message.speaker == "tool":
        return content
    name = message.origin.model if message.origin and message.origin.model else "Model"
    if message.speaker == "user":
        name = "Note" if message.instruction else "You"
    return f'<h2>{escape(_line(name))}</h2>\n<section class="{message.speaker}">\n{content}\n</section>'


def _block(block: Block, results: dict[str, ToolResult], shown: set[str]) -> str:
    match block:
        case Text(text):
            return _text(text)
        case Reasoning(text):
            return f"<details><summary>Reasoning</summary>{_markdown(text)}</details>" if text.strip() else ""
        case ToolCall():
            return _call(block, results.get(block.id), shown)
        case ToolResult():  # beside its call already, unless there is none
            return "" if block.call_id in shown else _folded(_heading(block), _result(block))
        case Media():
            return _media(block)
        case Code(code):
            return _pre(code)
        case _:
            assert_never(block)


def _call(call: ToolCall, result: ToolResult | None, shown: set[str]) -> str:
    shown.add(call.id)
    heading = f"{call.name}: no result" if result is None else _heading(result, call.name)
    return _folded(heading, _pre(arguments_of(call)[0]) + ("" if result is None else _result(result)))


def _heading(result: ToolResult, name: str = "") -> str:
    status = status_of(result)
    why = result.reason.replace("_", " ") if result.reason is not None else status
    return f"{name or result.name or 'result'}: {why}"


def _result(result: ToolResult) -> str:
    text = "\n".join(part for part in (result.error or "", text_of(result.output)) if part)
    return (_pre(text) if text else "") + "".join(map(_media, result.media))


def _folded(heading: str, content: str) -> str:
    return f"<details><summary>{escape(_line(heading))}</summary>{content}</details>"


def _media(media: Media) -> str:
    if media.mime in _IMAGES and media.data and _BASE64.fullmatch(media.data):
        name = escape(_line(media.name or media.kind))
        return f'<p><img alt="{name}" src="data:{media.mime};base64,{media.data}"></p>'
    return f'<p class="aside">{escape(_line(describe(media).text))}</p>'


def _markdown(text: str) -> str:
    """Without HTML of its own, and without pictures, which would be fetched."""
    shown = _markdown_reader().render(sanitised(encodable(text))) if text.strip() else ""
    return f'<div class="markdown">{shown}</div>' if shown else ""


@cache
def _markdown_reader() -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415 - only a page needs it

    reader = MarkdownIt("commonmark", {"html": False, "breaks": True})
    return reader.enable(["table", "strikethrough"]).disable("image")


def _text(text: str) -> str:
    """Code in fences as code, everything else as it was written."""
    parts, end = [], 0
    for fence in _FENCE.finditer(text):
        parts += [_plain(text[end : fence.start()]), _pre(fence[1])]
        end = fence.end()
    return "".join([*parts, _plain(text[end:])])


def _plain(text: str) -> str:
    return f'<div class="text">{_escaped(text.strip())}</div>' if text.strip() else ""


def _pre(text: str) -> str:
    return f"<pre>{_escaped(text.rstrip())}</pre>"


def _escaped(text: str) -> str:
    return escape(sanitised(encodable(text)))


def _line(text: str) -> str:
    return " ".join(sanitised(encodable(text)).split())
