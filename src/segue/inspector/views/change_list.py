"""Repairs as a list to read: what was changed how often, by which rule, why, and which refusal that prevents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

from segue.inspector.markup import words
from segue.inspector.markup.html import Element, e
from segue.interop.doctor import provider_refusals
from segue.transcript.repairs import SENTENCES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.transcript.repairs import Repair

_ADDED: Final = frozenset(
    {
        "call_closed",
        "call_reconstructed",
        "call_recovered",
        "result_recovered",
        "reasoning_filled",
        "call_seal_filled",
        "opened",
        "ended",
        "bridged",
        "reply_filled",
    }
)
_KINDS: Final = {"−": "loss", "+": "ok", "~": ""}
_TAGS: Final = {"hints_dropped": "provider’s marks not sent"}
"""Of what no rule of a provider asks for."""
_PLACES: Final = 4


@final
class Change(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Repairs of one kind, together."""

    sign: str
    """`+` added, `~` rewritten, `−` not sent."""
    code: str
    kind: str
    title: str
    why: str = ""
    prevents: str = ""
    places: list[str] = []
    number: int = 1


def sign_of(repair: Repair) -> str:
    if repair.lossy:
        return "−"
    return "+" if repair.kind in _ADDED else "~"


def changes_of(repairs: Sequence[Repair], dialect: str) -> list[Change]:
    """`dialect`: of the provider that would have refused what was repaired."""
    groups: dict[tuple[str, str], list[Repair]] = {}
    for repair in repairs:
        groups.setdefault(
            (repair.kind, repair.decision if repair.kind == "option_not_sent" else ""), []
        ).append(repair)
    known = provider_refusals(dialect) if dialect else None
    found = []
    for (kind, _), group in groups.items():
        first = group[0]
        refusal = known.refusal(kind, first.decision, foreign=True) if known is not None else None
        ids = ", ".join(first.call_ids[:1])
        place = known.place.replace("{n}", "…") if known is not None else ""
        sentence = SENTENCES[first.kind]
        head, _, rest = sentence.partition(": ") if ": " in sentence else (sentence, "", "")
        title = head if len(group) == 1 else f"{len(group)} × {head}"
        if kind == "option_not_sent":
            title = (
                f"Option not sent: {', '.join(dict.fromkeys(one.path.rpartition('.')[2] for one in group))}"
            )
        found.append(
            Change(
                sign=sign_of(first),
                code=refusal.code if refusal is not None else _TAGS.get(kind, kind.replace("_", " ")),
                kind=kind,
                title=title[:1].upper() + title[1:],
                why="; ".join(part for part in (rest, first.decision) if part),
                prevents=f"{refusal.status} {refusal.worded(call_id=ids, place=place)}"
                if refusal is not None
                else "",
                places=[one.path for one in group if one.path][:200],
                number=len(group),
            )
        )
    return sorted(found, key=lambda one: "−~+".index(one.sign))


def change_items(repairs: Sequence[Repair], dialect: str) -> list[Element]:
    return [
        e(
            "li",
            e("div", e("span", f"{one.sign} {one.code}", cls=f"tag {_KINDS[one.sign]}".strip()), cls="row"),
            e("h3", one.title),
            e("p", one.why, cls="q") if one.why else None,
            e("p", _places(one), cls="f s") if one.places else None,
            e("p", f"prevents: {one.prevents}", cls="err") if one.prevents else None,
            e("p", "Kept in the conversation, for the way back.", cls="q") if one.sign == "−" else None,
            tabindex="-1",
            data_change=one.kind,
        )
        for one in changes_of(repairs, dialect)
    ]


def _places(one: Change) -> str:
    more = len(one.places) - _PLACES
    shown = ", ".join(dict.fromkeys(one.places[:_PLACES]))
    return words.plain_text(f"at {shown}" + (f" and {more} more" if more > 0 else ""), 200)
