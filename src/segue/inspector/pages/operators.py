"""For operators: every request with a search, what people did on these pages, and the settings in force."""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from segue.gateway.accounts.administration import require_operator
from segue.inspector.markup import marks, words
from segue.inspector.markup.html import Element, e
from segue.inspector.markup.shell import ROOT, Page, head, section, table
from segue.inspector.pages.conversation import summary
from segue.inspector.pages.keys import operator_tabs
from segue.text.redaction import redact_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from segue.inspector.page_request import View
    from segue.inspector.record.records import RequestRecord

_ROWS: Final = 200
_MOST_LOOKED_AT: Final = 10_000


def log_page(view: View) -> Page:
    require_operator(view.viewer.account)
    question = view.query.get("q", "")
    found = [
        one for number, one in enumerate(view.requests()) if number < _MOST_LOOKED_AT and _fits(one, question)
    ]
    rows = [
        e(
            "tr",
            e("td", words.moment(one.began)),
            e("td", e("a", one.id[:12], cls="link mono", href=f"{ROOT}/r/{one.id}")),
            e("td", one.caller),
            e("td", marks.client_title(one.client)),
            e("td", one.asked),
            e("td", marks.model(one.route) if one.route else "–"),
            e("td", e("span", str(one.status or "–"), cls="bad b" if one.error else None), cls="r"),
            e("td", words.seconds(one.seconds), cls="r"),
            e("td", words.thousands(one.usage.total_tokens), cls="r"),
            e("td", words.cost(one.dollars), cls="r"),
            e("td", one.error or ""),
            data_row=one.id,
            data_href=f"{ROOT}/r/{one.id}",
        )
        for one in found[:_ROWS]
    ]
    form = e(
        "form",
        e("span", "/", cls="f", aria_hidden="true"),
        e(
            "input",
            name="q",
            id="filter",
            value=question,
            placeholder="caller:alice model:gpt* status:5* error:rate_limit id:…",
            aria_label="Search",
            autocomplete="off",
        ),
        cls="filter",
        method="get",
        action=f"{ROOT}/log",
        role="search",
    )
    headings = (
        "Time",
        "Request",
        "Caller",
        "Client",
        "Asked for",
        "Answered by",
        ">Status",
        ">Time",
        ">Tokens",
        ">Cost",
        "Error",
    )
    body = [
        head(
            "Request log",
            f"{words.count(len(found), 'request')} of {len(view.recorder.requests):,} that this process keeps figures of.",
        ),
        operator_tabs("log"),
        e("div", form, cls="gap16"),
        table(headings, rows, kind="tight", label="Requests")
        if rows
        else e("p", "No request fits.", cls="q empty"),
    ]
    return Page(
        title="Request log",
        tab="keys",
        body=body,
        data={"requests": [summary(one) for one in found[:1000]]},
        keys=(("j k", "move"), ("enter", "open"), ("/", "search")),
    )


def _fits(one: RequestRecord, question: str) -> bool:
    fields = {
        "caller": one.caller,
        "client": one.client,
        "model": one.route.partition("/")[2] or one.route,
        "asked": one.asked,
        "status": str(one.status),
        "error": one.error,
        "id": one.id,
        "conversation": one.conversation,
    }
    for word in question.lower().split():
        name, colon, value = word.partition(":")
        if colon and name in fields:
            if not fnmatch.fnmatchcase(fields[name].lower(), value if "*" in value else f"*{value}*"):
                return False
        elif not any(word in held.lower() for held in fields.values()):
            return False
    return True


def audit_page(view: View) -> Page:
    require_operator(view.viewer.account)
    entries = list(reversed(view.audit.entries))[:_ROWS]
    rows = [
        e("tr", e("td", words.moment(one.at)), e("td", one.who), e("td", one.did), e("td", one.what))
        for one in entries
    ]
    body = [
        head("Audit log", "What was done on these pages, and whose content was looked at; the newest first."),
        operator_tabs("audit"),
        table(("Time", "Who", "Did", "What"), rows, kind="tight", label="Audit log")
        if rows
        else e("p", "Nothing was done yet.", cls="q empty"),
    ]
    return Page(title="Audit log", tab="keys", body=body, data={"entries": entries}, keys=(("j k", "move"),))


def settings_page(view: View) -> Page:
    require_operator(view.viewer.account)
    shown = redact_settings("", msgspec.to_builtins(view.gateway.config))
    default = msgspec.to_builtins(type(view.gateway.config)())
    rows = list(_flat(shown, default))
    tables = dict.fromkeys(name.rpartition(".")[0] for name, _, _ in rows)
    own = [row for row in rows if row[2]]
    body = [
        head(
            "Settings in force",
            f"As this gateway reads them, without secrets; {len(own)} of {len(rows)} are not the default. Change them in a file, then "
            "send SIGHUP.",
        ),
        operator_tabs("settings"),
        section("Set here", _settings(own) if own else e("p", "All settings are the default.", cls="q gap8")),
        section("All", [_settings_of(name, rows) for name in tables]),
    ]
    return Page(title="Settings", tab="keys", body=body, data={"settings": shown}, keys=(("j k", "move"),))


_Setting: TypeAlias = tuple[str, Any, bool]


def _settings_of(name: str, rows: Sequence[_Setting]) -> Element:
    """A table of the file, folded."""
    held = [row for row in rows if row[0].rpartition(".")[0] == name]
    changed = sum(row[2] for row in held)
    note = f"{words.count(len(held), 'setting')}{f', {changed} set here' if changed else ''}"
    return e(
        "details",
        e(
            "summary",
            e("code", f"[{name}]" if name else "(before all tables)"),
            " ",
            e("span", note, cls="f s"),
            cls="foldrow",
        ),
        _settings(held),
    )


def _settings(rows: Sequence[_Setting]) -> Element:
    cells = [
        e(
            "tr",
            e("td", e("code", name), cls="nw"),
            e("td", e("code", words.plain_text(_as_toml(value), 300))),
            e("td", "set here" if changed else "default", cls=None if changed else "f"),
        )
        for name, value, changed in rows
    ]
    return table(("Setting", "Value", "From"), cells, kind="tight settings", label="Settings")


def _as_toml(value: Any) -> str:
    """As it stands in a file; a dash where nothing is set."""
    return "–" if value is None or value == "" else msgspec.json.encode(value).decode()


def _flat(held: dict[str, Any], default: Any, before: str = "") -> Iterator[_Setting]:
    for name, value in held.items():
        usual = default.get(name) if isinstance(default, dict) else None
        if isinstance(value, dict) and value:
            yield from _flat(value, usual, f"{before}{name}.")
        else:
            yield f"{before}{name}", value, value != usual
