"""As another model: who would accept the conversation, what would it not see, does it fit, what does the next turn cost?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

from msgspec import Struct, structs

from segue.conversation.blocks import Text
from segue.conversation.message import Message
from segue.conversation.usage import Usage
from segue.errors import SegueError
from segue.gateway.prompt_caches.facts import cache_facts
from segue.inspector.markup import marks, words
from segue.inspector.markup.html import Element, Node, e
from segue.inspector.markup.shell import ROOT, Page, button, conversation_tabs, crumb, head, section
from segue.inspector.views.change_list import change_items, sign_of
from segue.inspector.views.chat_view import not_visible, seals_of
from segue.inspector.views.json_text import formatted
from segue.inspector.views.row_markup import pair, unchanged_folded
from segue.inspector.views.wire_rows import rows_of
from segue.providers.models.catalog import catalog_model
from segue.providers.token_counts import estimate_request, family_of
from segue.routing.route import facts_from, parse_route, provider_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.conversation.message import Conversation
    from segue.inspector.page_request import View
    from segue.inspector.record.records import ConversationRecord
    from segue.providers.adapter import ChatRequest, RequestSent
    from segue.routing.route import Route
    from segue.transcript.repairs import Repair

_OUTPUT: Final = 300
"""Tokens of output that a price is told for."""
_MOST: Final = 24
_NEXT: Final = "(your next message)"
_LINES: Final = 400


@final
class ModelPreview(Struct, kw_only=True, omit_defaults=True):
    """What one model would get, and what it would cost."""

    route: str
    wire: str = ""
    accepted: bool = True
    why_not: str = ""
    repairs: int = 0
    losses: list[str] = []
    tokens: int | None = None
    window: int | None = None
    so_far: float | None = None
    """What the requests of the conversation would have cost there, with as much read from caches."""
    warm: float | None = None
    cold: float | None = None
    is_warm: bool = False
    warm_since: str = ""
    in_use: bool = False


def candidates(view: View, known: ConversationRecord) -> list[Route]:
    """The models that are configured by name, and those that answered before."""
    names, found = view.gateway.names, dict[str, Any]()
    config = view.gateway.config
    wanted = [known.asked, *known.routes[-20:], config.gateway.model, config.model]
    wanted += [*config.gateway.models.values(), *config.aliases, *config.profiles]
    account = view.viewer.account
    for name in wanted:
        if not name:
            continue
        try:
            for route in names.router(name).routes:
                if account.may_use(name, [route.name]):
                    found.setdefault(route.name, route)
        except SegueError:
            continue
    return list(found.values())[:_MOST]


def window_of(view: View, route: str) -> int | None:
    """Tokens that fit there, as far as that is known."""
    provider, _, model = route.partition("/")
    listed = catalog_model(provider, model)
    if listed is not None and listed.context is not None:
        return listed.context
    try:
        return facts_from(view.providers)(parse_route(route)).context
    except SegueError:
        return None


def request_for(view: View, known: ConversationRecord, route: Route, more: str = _NEXT) -> ChatRequest | None:
    """What a route would get with the next message; None if what was said is not held. `more`: that message, empty for none."""
    turn = known.last_turn
    if turn is None or not view.may_read(known.id, known.caller):
        return None
    said = turn.conversation
    if more:
        if known.last_answer is not None:
            said = said.append(known.last_answer)
        said = said.append(Message("user", (Text(more),)))
    asked = structs.replace(turn, conversation=said, bound="", continues=False)
    request = view.gateway.members.request(asked, route)
    # What is looked at leaves no trace in what is kept for the next request, and is no request of the client's.
    return structs.replace(request, session="", plans=None, came=b"")


def preview_of(view: View, request: ChatRequest, route: Route) -> RequestSent:
    """Raises why it cannot be sent there."""
    preview = provider_of(route, view.providers).capabilities.preview
    if preview is None:
        raise SegueError("This provider shows no requests.", code="no_preview")
    return preview(request)


def examined(view: View, known: ConversationRecord, route: Route) -> tuple[ModelPreview, RequestSent | None]:
    found = ModelPreview(
        route=route.name, window=window_of(view, route.name), in_use=route.name == known.route
    )
    try:
        request = request_for(view, known, route)
        if request is None:
            stored = view.said(known) is not None
            found.accepted = False
            found.why_not = "known after the next request" if stored else "content is not recorded"
            return found, None
        sent = preview_of(view, request, route)
    except SegueError as error:
        found.accepted, found.why_not = False, error.message
        return found, None
    found.wire, found.repairs = sent.origin.dialect, len(sent.repairs)
    found.losses = not_visible([repair for repair in sent.repairs if repair.lossy])
    found.tokens = estimate_request(request, family_of(route.model))
    if found.window and found.tokens > found.window:
        found.accepted, found.why_not = False, f"{words.short(found.tokens - found.window)} too long"
    _price(view, known, found)
    return found, sent


def _price(view: View, known: ConversationRecord, found: ModelPreview) -> None:
    prices = view.gateway.accounts.prices
    provider, _, model = found.route.partition("/")
    tokens = found.tokens or 0
    spent = [prices.cost_of(one.usage, provider, model) for one in known.requests if one.usage.total_tokens]
    found.so_far = sum(filter(None, spent)) if spent and None not in spent else None
    found.cold = prices.cost_of(Usage(tokens, _OUTPUT), provider, model)
    last = next((one for one in reversed(known.requests) if one.route == found.route and not one.error), None)
    held = min(last.usage.input_tokens or 0, tokens) if last is not None else tokens
    found.warm = prices.cost_of(Usage(tokens, _OUTPUT, held), provider, model)
    facts = cache_facts(found.wire, model)
    if last is None:
        found.warm_since = "from its second turn on"
        return
    passed = view.now - last.began
    if not facts.seconds:
        found.warm_since = f"if turn {last.turn} is still cached"
    elif passed < facts.seconds:
        left = int(facts.seconds - passed)
        found.is_warm = True
        found.warm_since = f"applies for {left // 60}:{left % 60:02} more"
    else:
        found.warm_since = "if it had been kept"


def page(view: View, name: str) -> Page:
    known = view.conversation(name)
    found = [examined(view, known, route) for route in candidates(view, known)]
    said = view.said(known)
    own = seals_of(said) if said is not None else {}
    chosen = view.query.get("model", "") or next(
        (one.route for one, sent in found if not one.in_use and sent is not None), ""
    )
    shown = next(((one, sent) for one, sent in found if one.route == chosen and sent is not None), None)
    now = next(((one, sent) for one, sent in found if one.in_use and sent is not None), None)
    headings = (
        "Model",
        "Accepted",
        "It will not see",
        "Fits in the window",
        ">So far, on it",
        ">Next turn, warm cache",
        ">Cold cache",
        ">Action",
    )
    body = [
        crumb(("Conversations", "/"), (view.title(known), f"/c/{known.id}"), ("as another model", "")),
        head(
            "As another model",
            "What each configured model would get with the next message. Nothing is sent until you choose. A switch holds from "
            "the next turn on; “run once” asks first, shows the answer here and changes nothing.",
        ),
        conversation_tabs(known.id, known.request_count, "as"),
        _table(headings, [_row(known, one, chosen, own.get(one.route, 0)) for one, _ in found]),
        e(
            "p",
            f"Prices: input by estimate, and {_OUTPUT} tokens of output. Bold is the price that applies now. “So far, on it” is what the "
            "requests of this conversation would have cost there, with as much read from caches as was.",
            cls="s f gap8",
        ),
        e("div", id="once", aria_live="polite"),
        _would_get(view, known, *shown, now) if shown is not None else None,
    ]
    return Page(
        title="As another model",
        tab="conversations",
        body=body,
        data={"candidates": [one for one, _ in found]},
        foot=e("span", "The conversation itself is not changed."),
        keys=(
            ("j k", "models"),
            ("enter", "what it would get"),
            ("s", "switch"),
            ("o", "run once"),
            ("n", "next change"),
        ),
    )


def _table(headings: Sequence[str], rows: Sequence[Node]) -> Element:
    cells = [e("th", one.lstrip(">"), cls="r" if one[0] == ">" else None, scope="col") for one in headings]
    table = e("table", e("thead", e("tr", cells)), e("tbody", rows), cls="stack cand lead-in")
    return e("div", table, cls="scroll", tabindex="0", role="region", aria_label="Models")


def _row(known: ConversationRecord, one: ModelPreview, chosen: str, own: int) -> Element:
    """`own`: signatures in the conversation that this model can open."""
    share = (one.tokens or 0) / one.window if one.window else None
    window: Node = e("span", words.NO_DATA, cls="f")
    if share is not None and one.window:
        over = share > 1
        bar = marks.share_bar([("f-bad" if over else "t-fresh", share)])
        text = one.why_not if over else f"{words.percent(share)} of {words.short(one.window)}"
        window = e("span", bar, e("span", text, cls="bad nw" if over else "nw"), cls="row")
    link = f"{ROOT}/c/{known.id}/as?model={one.route}#what"
    actions: Node = e("span", "in use", cls="f")
    if not one.in_use:
        actions = [
            button(
                "Switch", "switch", main=one.route == chosen, conversation=known.id, model=one.route, key="s"
            ),
            " ",
            button("Run once", "run-once", conversation=known.id, model=one.route, key="o"),
        ]
    accepted: Node = (
        [e("span", "✓", cls="good"), " accepted", e("span", words.count(one.repairs, "repair"), cls="s f")]
        if one.accepted
        else [e("span", "✕", cls="bad"), " ", e("span", words.plain_text(one.why_not, 60))]
    )
    restored = f"its own {words.count(own, 'signature')} restored" if own else ""
    losses: Node = [
        ", ".join(one.losses) if one.losses else "it sees all of it",
        e(
            "span",
            "; ".join(part for part in (restored, "rest kept" if one.losses else "") if part)
            if restored
            else "kept for the way back"
            if one.losses
            else "",
            cls="s f",
        ),
    ]
    return e(
        "tr",
        e(
            "td",
            e("a", marks.model(one.route, bold=True, whole=True), href=link),
            e("span", one.route.partition("/")[0] + (" · answers now" if one.in_use else ""), cls="s f"),
            cls="title nw",
        ),
        e("td", accepted, cls="nw" if one.accepted else None),
        e("td", losses if one.accepted else "–", data_l="not visible:"),
        e("td", window, data_l="window"),
        e("td", words.cost(one.so_far), cls="r half q", data_l="so far"),
        e(
            "td",
            _money(one.warm, bold=one.is_warm),
            e("span", one.warm_since, cls="s f"),
            cls="r half",
            data_l="warm",
        ),
        e(
            "td",
            _money(one.cold, bold=not one.is_warm),
            e("span", "" if one.is_warm or one.cold is None else "applies", cls="s f"),
            cls="r half",
            data_l="cold",
        ),
        e("td", actions, cls="r nw"),
        cls="sel" if one.route == chosen else None,
        data_row=one.route,
        data_href=link,
    )


def _money(amount: float | None, *, bold: bool) -> Element:
    return e("span", words.cost(amount), cls="b" if bold and amount else "q")


def _would_get(
    view: View,
    known: ConversationRecord,
    one: ModelPreview,
    sent: RequestSent,
    now: tuple[ModelPreview, RequestSent] | None,
) -> Element:
    """`now`: what the model gets that answers now."""
    beside = now if now is not None and not one.in_use else None
    forms = {
        "changes": "Changes",
        **({"beside": "Side by side with now"} if beside is not None else {}),
        "raw": "Raw JSON",
    }
    form = view.query.get("form", "")
    form = form if form in forms else "changes"
    tabs = [
        e(
            "a",
            title,
            href=f"{ROOT}/c/{known.id}/as?model={one.route}&form={name}#what",
            aria_current="true" if form == name else None,
        )
        for name, title in forms.items()
    ]
    aside: list[Node] = [
        f"{one.wire.replace('_', ' ')} · about {words.thousands(one.tokens)} tokens",
    ]
    for sign, what, kind, number in _signs(sent.repairs):
        aside += [" · ", e("span", f"{sign} {number} {what}", cls=kind)]
    content: Node
    if form == "raw":
        content = e("pre", formatted(sent.body, _LINES * 10), cls="code scroll", tabindex="0")
    elif form == "beside" and beside is not None:
        content = _beside(*beside, one, sent, view.said(known))
    elif sent.repairs:
        content = e("ol", change_items(sent.repairs, one.wire), cls="why wide-why")
    else:
        content = e("p", "It would get all of it, without a change but the wire.", cls="q gap8")
    return section(
        ["What ", marks.model(one.route, whole=True), " would get"],
        content,
        aside=aside,
        end=e("span", tabs, cls="tabs"),
        id_="what",
    )


def _beside(
    now: ModelPreview, gets: RequestSent, one: ModelPreview, sent: RequestSent, said: Conversation | None
) -> Element:
    """What the model that answers now would get with the next message, and what the other one would: step by step."""
    rows = rows_of(gets.body, sent.body, now.wire, one.wire, sent.repairs, said)
    heads = e(
        "div",
        e("div", marks.model(now.route, whole=True), " gets now", cls="colhead", data_col="client"),
        e("div", marks.model(one.route, whole=True), " would get", cls="colhead", data_col="provider"),
        cls="pair heads",
    )
    return e("div", e("div", heads, pair(rows[0]), unchanged_folded(rows[1:]), cls="pairs"), cls="req beside")


def _signs(repairs: Sequence[Repair]) -> list[tuple[str, str, str, int]]:
    counts: dict[str, int] = {}
    for repair in repairs:
        counts[sign_of(repair)] = counts.get(sign_of(repair), 0) + 1
    words_of = {"−": ("not sent", "bad"), "~": ("rewritten", "warn"), "+": ("added", "good")}
    return [(sign, *words_of[sign], counts[sign]) for sign in ("−", "~", "+") if counts.get(sign)]
