"""The doctor: what is wrong on which line of a file, what will its program do with it, how to continue."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from msgspec import Struct

from segue.errors import SegueError, TranscriptError
from segue.inspector.markup import marks, words
from segue.inspector.markup.html import Element, Node, e
from segue.inspector.markup.shell import Page, button, head
from segue.inspector.page_request import not_found
from segue.interop.agents.repaired_session import repair_session
from segue.interop.doctor import Diagnosis, Examination, Finding, examine, fix_transcript, unreadable
from segue.interop.session_files import read_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.inspector.page_request import View
    from segue.interop.source import SourceRequest

_LINE: Final = re.compile(r"line (\d+)")
_INDEX: Final = re.compile(r"\[(\d+)\]")
_AROUND: Final = 1
_MOST_SHOWN: Final = 300


@final
class Checked(Struct, kw_only=True):
    """A file, looked at."""

    name: str
    examination: Examination
    every: Examination | None = None
    """As all targets see it."""
    lines: list[str] = []
    """What stands in each line, or in each message of a request."""
    has_lines: bool = False
    repaired: bytes = b""
    source: Any = None


def check(name: str, data: bytes, target: str = "") -> Checked:
    """Read a file and look at it as its own provider would; `target`: as another one."""
    try:
        source, numbers = read_file(data, to=target)
    except TranscriptError as error:
        return Checked(name=name, examination=unreadable(error, target))
    session = repair_session(data, source.form)
    examination = examine(source, (target,) if target else (), lines=numbers, session=session)
    every = examine(source, ("all",), lines=numbers)
    try:
        repaired = (
            session.data
            if session is not None and not target
            else fix_transcript(source, (target,) if target else ())[1]
        )
    except SegueError:
        repaired = b""
    has_lines = bool(numbers)
    lines = (
        [_line_text(line) for line in data.splitlines()]
        if has_lines
        else [_message_text(item) for item in _items(source)]
    )
    return Checked(
        name=name,
        examination=examination,
        every=every,
        lines=lines,
        has_lines=has_lines,
        repaired=repaired if repaired != data else b"",
        source=source,
    )


def _items(source: SourceRequest) -> list[Any]:
    if source.body:
        from segue.dialects.registry import DIALECTS  # noqa: PLC0415

        held = source.body.get(DIALECTS[source.dialect].messages_field)
        if isinstance(held, list):
            return held
    return [msgspec.to_builtins(message) for message in source.messages]


def _line_text(line: bytes) -> str:
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return line[:400].decode("utf-8", "replace")
    return _message_text(value)


def _message_text(value: Any) -> str:
    """A line or a message in one line: who, and what."""
    if not isinstance(value, dict):
        return words.plain_text(str(value), 300)
    inner = value.get("message") or value.get("payload") or value
    inner = inner if isinstance(inner, dict) else value
    who = str(inner.get("role") or inner.get("speaker") or value.get("type") or "")
    content = inner.get("content", inner.get("parts", inner.get("blocks", inner.get("input"))))
    parts = content if isinstance(content, list) else [content]
    said = "  ".join(text for part in parts if (text := _part_text(part)))
    calls = inner.get("tool_calls")
    if isinstance(calls, list):
        said += "  ".join(f" tool_call {msgspec.json.encode(call).decode()[:200]}" for call in calls)
    return words.plain_text(f"{who} {said}".strip() or str(value.get("type", "")), 400)


def _part_text(part: Any) -> str:
    if part is None:
        return ""
    if isinstance(part, str):
        return f'"{part[:200]}"'
    if not isinstance(part, dict):
        return str(part)[:100]
    kind = str(part.get("type", ""))
    rest = {name: value for name, value in part.items() if name not in ("type", "signature", "data")}
    return f"{kind} {msgspec.json.encode(rest).decode()[:240]}".strip()


def page(view: View) -> Page:
    if name := view.query.get("request", ""):
        return _request_page(view, name)
    body = [
        head(
            "Doctor",
            "What a provider would refuse in a request or a session file of an agent, on the line that it concerns. The file is read "
            "by this gateway, nothing of it is sent or kept.",
        ),
        e(
            "div",
            e("p", "Drop a file anywhere on this page, or choose one.", cls="q"),
            e(
                "p",
                e("label", "Choose a file", for_="file", cls="btn main"),
                e("input", type="file", id="file", cls="hide", data_action_file="doctor"),
                cls="gap8",
            ),
            cls="drop-zone",
            id="drop",
        ),
        e("div", id="checked", aria_live="polite"),
        e(
            "p",
            "The same in a terminal: ",
            e("code", "segue doctor FILE"),
            ", or ",
            e("code", "segue inspect FILE"),
            cls="s f gap16",
        ),
    ]
    return Page(
        title="Doctor", tab="doctor", body=body, data={"post": "api/doctor"}, keys=(("n N", "next finding"),)
    )


def _request_page(view: View, name: str) -> Page:
    """A request that came through this gateway, as its client sent it."""
    one = view.request(name)
    if one.content is None or not view.may_read(one.conversation, one.caller):
        raise not_found("content")
    return report_page(check(f"request {one.number} of {one.conversation}", one.content.client.data()))


def report_page(checked: Checked) -> Page:
    """A file that was named when the inspector was started."""
    return Page(
        title=checked.name,
        tab="doctor",
        body=report(checked),
        data=checked.examination.as_dict(),
        keys=(("n N", "next finding"),),
    )


def report(checked: Checked) -> list[Node]:
    found = checked.examination
    diagnosis = found.diagnoses[0] if found.diagnoses else Diagnosis(target="", model="")
    form = found.form or f"{found.dialect} request"
    unit = "lines" if checked.has_lines else "messages"
    counts = f"{words.count(found.messages, 'message')}, {words.count(found.calls, 'call')}"
    if checked.has_lines:
        counts = f"{len(checked.lines):,} lines, {counts}"
    return [
        head(
            checked.name,
            f"{form} · {counts} · read on this machine, nothing was sent",
        ),
        e(
            "div",
            e(
                "div",
                e(
                    "div",
                    e(
                        "h2",
                        f"{words.count(len(diagnosis.findings), 'finding')} on {len(checked.lines):,} {unit}",
                    ),
                    e(
                        "span",
                        "checked for ",
                        diagnosis.target,
                        f" ({diagnosis.model})" if diagnosis.model else "",
                        cls="q s",
                    ),
                    cls="sub",
                ),
                _lines(checked, diagnosis.findings),
            ),
            _aside(checked, diagnosis),
            cls="file",
        ),
    ]


def _place(finding: Finding, *, has_lines: bool) -> int | None:
    """The line, or the message, counted from 1; None if it concerns none."""
    found = _LINE.search(finding.place) if has_lines else _INDEX.search(finding.place)
    if found is None:
        return None
    return int(found[1]) if has_lines else int(found[1]) + 1


def _lines(checked: Checked, findings: Sequence[Finding]) -> Element:
    by_place: dict[int, list[Finding]] = {}
    loose: list[Finding] = []
    for finding in findings:
        place = _place(finding, has_lines=checked.has_lines)
        if place is None or place > len(checked.lines):
            loose.append(finding)
        else:
            by_place.setdefault(place, []).append(finding)
    wanted = sorted(
        {
            n
            for place in by_place
            for n in range(place - _AROUND, place + _AROUND + 1)
            if 1 <= n <= len(checked.lines)
        }
    )
    shown: list[Node] = [_finding(finding, "hit") for finding in loose]
    last = 0
    for number in wanted[:_MOST_SHOWN]:
        if number > last + 1:
            shown.append(_skipped(last + 1, number - 1, checked))
        shown.append(_line(number, checked.lines[number - 1], by_place.get(number, [])))
        last = number
    if last < len(checked.lines):
        shown.append(_skipped(last + 1, len(checked.lines), checked))
    return e("ol", shown, cls="lines")


def _skipped(first: int, last: int, checked: Checked) -> Element:
    unit = "lines" if checked.has_lines else "messages"
    span = f"{unit} {first}–{last}" if first != last else f"{unit[:-1]} {first}"
    return e("li", e("span", "", cls="ln"), e("span", f"▸ {span} · healthy", cls="body"), cls="skip")


def _line(number: int, text: str, findings: Sequence[Finding]) -> Element:
    kind = ""
    if findings:
        kind = "hit" if any(finding.level == "error" for finding in findings) else "note"
    return e(
        "li",
        e("span", str(number), cls="ln"),
        e("span", text, cls="body"),
        [_words(finding) for finding in findings],
        cls=kind or None,
        data_mark=bool(findings),
        tabindex="-1" if findings else None,
    )


def _finding(finding: Finding, kind: str) -> Element:
    return e(
        "li",
        e("span", "", cls="ln"),
        e("span", finding.place, cls="body"),
        _words(finding),
        cls=kind,
        data_mark=True,
        tabindex="-1",
    )


def _words(finding: Finding) -> Element:
    ids = f" ({', '.join(finding.call_ids[:3])})" if finding.call_ids else ""
    return e(
        "div",
        e(
            "div",
            e("span", finding.code, cls="tag loss" if finding.level == "error" else "tag"),
            " ",
            e("b", f"{finding.what}{ids}"),
        ),
        e("div", f"{finding.status} {finding.provider_error}", cls="err") if finding.provider_error else None,
        e(
            "div",
            e("span", "+", cls="good"),
            f" {finding.fix}",
            " The model sees less." if finding.lossy else "",
        )
        if finding.fix
        else None,
        cls="fnd",
    )


def _aside(checked: Checked, diagnosis: Diagnosis) -> Element:
    program = [finding for finding in diagnosis.findings if finding.program]
    does: Node = None
    if program:
        does = [
            e(
                "div",
                e("h2", f"What {checked.examination.form.partition(' session')[0] or 'its program'} will do"),
                cls="sub",
            ),
            e(
                "ul",
                [e("li", e("h3", finding.place), e("p", finding.program)) for finding in program[:20]],
                cls="todo",
            ),
        ]
    copy: Node = e("p", "Nothing has to be repaired.", cls="q gap8")
    if checked.repaired:
        copy = e(
            "ul",
            e(
                "li",
                e(
                    "div",
                    e("h3", "Resume it where it was", cls="grow"),
                    button(
                        "Repaired copy",
                        "save",
                        main=True,
                        name=f"repaired-{checked.name}",
                        data=base64.b64encode(checked.repaired).decode(),
                    ),
                    cls="row",
                ),
                e("p", "The file itself is kept as it is."),
            ),
            cls="todo",
        )
    rows = [
        e(
            "tr",
            e("td", marks.wire(one.target)),
            e("td", str(one.errors), cls="r bad b" if one.errors else "r zero"),
            e("td", str(one.notes), cls="r f"),
        )
        for one in (checked.every.diagnoses if checked.every is not None else ())
    ]
    return e(
        "aside",
        does,
        e("div", e("h2", "What you can do"), cls="sub gap16"),
        copy,
        e(
            "table",
            e(
                "thead",
                e(
                    "tr",
                    e("th", "If sent as it is to", scope="col"),
                    e("th", "Errors", cls="r", scope="col"),
                    e("th", "Notes", cls="r", scope="col"),
                ),
            ),
            e("tbody", rows),
            cls="gap16 tight",
        )
        if rows
        else None,
        e("p", "The same in a terminal: ", e("code", "segue doctor FILE --for all"), cls="s f gap8"),
    )
