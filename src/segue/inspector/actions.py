"""What can be done on the pages: a switch, a turn run once on another model, a fork, an answer for a call that waits,
keys of callers, a file for the doctor."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec import Struct, structs

from segue.config.schema import Allowance
from segue.config.session_stores import open_store
from segue.conversation.usage import Usage
from segue.errors import InvalidRequestError, SegueError, UsageError
from segue.exchange.attempt import Attempt
from segue.gateway.accounts import costs
from segue.gateway.accounts.administration import require_operator
from segue.gateway.accounts.register import ANYONE
from segue.gateway.doors.control import checked_model
from segue.gateway.telemetry.report import AttemptReport, RequestReport
from segue.inspector import approvals
from segue.inspector.access.bodies import decoded
from segue.inspector.markup import words
from segue.inspector.markup.html import tree_of
from segue.inspector.page_request import not_found
from segue.inspector.pages import doctor
from segue.inspector.pages.other_model import candidates, request_for
from segue.providers.token_counts import estimate_request, family_of
from segue.routing.route import provider_of
from segue.sessions.entries import Adopted, SessionStarted
from segue.sessions.journal import Journal
from segue.transcript.adopt import rebuild

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from segue.conversation.message import Conversation
    from segue.inspector.page_request import View
    from segue.inspector.record.records import ConversationRecord
    from segue.routing.route import Route

_T = TypeVar("_T")
_OUTPUT: Final = 300


class OneConversation(Struct, forbid_unknown_fields=True):
    """Which one."""

    conversation: str


class _Switch(Struct, forbid_unknown_fields=True):
    conversation: str
    model: str = ""
    """Empty: the client's name decides again."""


class _RunOnce(Struct, forbid_unknown_fields=True):
    conversation: str
    model: str
    confirmed: bool = False
    """Else only the price is told."""


class _Fork(Struct, forbid_unknown_fields=True):
    conversation: str
    turn: int = 0
    """Behind which it begins; 0: the last one."""


class _File(Struct, forbid_unknown_fields=True):
    name: str
    data: str
    """In base64."""
    target: str = ""


class _Key(Struct, forbid_unknown_fields=True):
    name: str
    models: list[str] = []
    dollars_per_day: float | None = None
    dollars_per_month: float | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrent: int | None = None
    admin: bool = False

    def allowance(self) -> Allowance:
        limits = {name: getattr(self, name) for name in Allowance.__struct_fields__}
        try:
            return msgspec.convert(limits, Allowance)
        except msgspec.ValidationError as error:
            raise InvalidRequestError(f"This is no limit: {error}.", code="bad_limit", status=400) from error


async def _switch(view: View, body: bytes) -> dict[str, Any]:
    asked = decoded(body, _Switch)
    known, account = view.conversation(asked.conversation), view.viewer.account
    try:
        model = checked_model(asked.model, view.gateway.config, view.providers)
    except UsageError as error:
        raise InvalidRequestError(error.message, code=error.code, status=400, hint=error.hint) from error
    if model and not account.may_use(model, view.gateway.names.led_to(model)):
        raise InvalidRequestError(f"You may not use {model}.", code="model_not_allowed", status=403)
    if not await view.gateway.memory.store.switch(known.id, model, known.caller):
        raise not_found("conversation")
    view.audit.note(view.viewer.name, "switched", f"{known.id} to {model or 'what its client asks for'}")
    said = f"{model} answers" if model else f"“{known.asked}” decides again"
    return {"said": f"{said} from the next turn on.", "reload": True}


def _route(view: View, known: ConversationRecord, name: str) -> Route:
    for route in candidates(view, known):
        if route.name == name:
            return route
    raise InvalidRequestError(f"{name} is not configured here.", code="unknown_model", status=404)


async def _run_once(view: View, body: bytes) -> dict[str, Any]:
    """Ask another model beside the original answer. Nothing is remembered; what it costs is counted as everything is."""
    asked = decoded(body, _RunOnce)
    known, account = view.conversation(asked.conversation), view.viewer.account
    route = _route(view, known, asked.model)
    request = request_for(view, known, route, more="")
    if request is None or known.last_turn is None:
        raise not_found("content")
    tokens = estimate_request(request, family_of(route.model))
    price = view.gateway.accounts.prices.cost_of(Usage(tokens, _OUTPUT), route.provider, route.model)
    if not asked.confirmed:
        return {"price": words.cost(price), "tokens": tokens, "model": route.name}
    turn = structs.replace(known.last_turn, asked=route.name)
    report = RequestReport(
        request_id=f"once-{int(time() * 1000):x}",
        caller=account.name,
        asked=route.name,
        route=route.name,
        operation="inspect",
        began=time(),
    )
    accounts = view.gateway.accounts
    admission, expected = await costs.admit(accounts, account, turn, view.gateway.names, (route,))
    attempt = Attempt(provider_of(route, view.providers), request, route=route.name)
    tried = AttemptReport(route=route.name, began=report.began, handovers=attempt.handovers)
    report.tries = [tried]
    view.audit.note(view.viewer.name, "ran once", f"{known.id} on {route.name}")
    try:
        error = await attempt.run(lambda *_: None)
        report.error = error.code if error is not None else ""
    finally:
        costs.settle(accounts, admission, expected, report)
    if error is not None:
        raise InvalidRequestError(f"{route.name}: {error.message}", code=error.code, status=502)
    reply = attempt.reply.message
    return {
        "model": route.name,
        "text": reply.text,
        "calls": [{"name": call.name, "arguments": call.arguments} for call in reply.calls],
        "original": known.last_answer.text if known.last_answer is not None else "",
        "original_model": known.route,
        "usage": report.usage,
        "dollars": words.cost(report.dollars),
        "seconds": words.seconds(attempt.seconds),
    }


def _until(said: Conversation, turn: int) -> Conversation:
    """The conversation up to the end of a turn, counted from 1; 0: all of it."""
    if not turn:
        return said
    seen = 0
    for place, message in enumerate(said.messages):
        if message.speaker == "user" and not message.instruction:
            seen += 1
            if seen > turn:
                return structs.replace(said, messages=said.messages[:place])
    return said


async def _fork(view: View, body: bytes) -> dict[str, Any]:
    """A conversation, or its beginning, as a session of the chat on this machine."""
    asked = decoded(body, _Fork)
    known = view.conversation(asked.conversation)
    if view.viewer.account is not ANYONE:
        raise InvalidRequestError(
            "A fork becomes a session on the gateway's machine, so only its user can make one.",
            code="not_here",
            status=403,
            hint="Export the conversation, and import it: segue sessions import FILE",
        )
    said = view.said(known)
    if said is None:
        raise not_found("content")
    part = _until(said, asked.turn)
    store = open_store(view.gateway.config)
    try:
        ledger = rebuild(part)
        done = tuple(one for one in ledger.values() if one.finished)
        started = SessionStarted(
            model=known.route,
            system=part.system,
            title=f"Fork of {view.title(known)}",
            directory=str(Path.cwd()),
        )
        adopted = Adopted(
            conversation=part, interactions=done, source=f"conversation {known.id} of the gateway"
        )
        journal = await Journal.start(store, started, more=(adopted,))
        name = journal.session
        await journal.close()
    finally:
        await store.close()
    view.audit.note(view.viewer.name, "forked", f"{known.id} as {name}")
    return {"said": f"Forked. Resume with: segue -r {name}", "session": name}


async def _doctor(view: View, body: bytes) -> dict[str, Any]:
    del view
    file = decoded(body, _File)
    try:
        data = base64.b64decode(file.data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequestError("The file did not arrive whole.", code="bad_body", status=400) from error
    try:
        checked = doctor.check(file.name[:200], data, file.target)
    except SegueError as error:
        raise InvalidRequestError(error.message, code=error.code, status=400, hint=error.hint) from error
    return {"tree": tree_of(doctor.report(checked)), "examination": checked.examination.as_dict()}


async def _answer(view: View, body: bytes) -> dict[str, Any]:
    """For a call of a session of this machine that waits. An operator with a name signs with it."""
    waiting = approvals.required(view)
    signer = "" if view.viewer.account is ANYONE else view.viewer.name
    given, done = await approvals.answer(waiting, body, signer=signer)
    did = "allowed a call" if given.allow else "denied a call"
    view.audit.note(view.viewer.name, did, f"{given.call_id} of session {given.session}")
    return done


# Keys, for operators


async def _key_create(view: View, body: bytes) -> dict[str, Any]:
    asked = _operators(view, body)
    administration = view.gateway.accounts.administration
    key = await _usable(administration.create(asked.name, asked.allowance(), labels={}, admin=asked.admin))
    view.audit.note(view.viewer.name, "made a key", asked.name)
    return {"key": key, "said": f"The key of {asked.name}, shown only now:"}


async def _key_limits(view: View, body: bytes) -> dict[str, Any]:
    asked = _operators(view, body)
    await _usable(view.gateway.accounts.administration.change(asked.name, asked.allowance()))
    view.audit.note(view.viewer.name, "changed limits", asked.name)
    return {"said": f"The limits of {asked.name} are changed.", "reload": True}


async def _key_rotate(view: View, body: bytes) -> dict[str, Any]:
    asked = _operators(view, body)
    key = await _usable(view.gateway.accounts.administration.rotate(asked.name))
    view.audit.note(view.viewer.name, "rotated the key", asked.name)
    return {"key": key, "said": f"The new key of {asked.name}, shown only now:"}


async def _key_revoke(view: View, body: bytes) -> dict[str, Any]:
    asked = _operators(view, body)
    await _usable(view.gateway.accounts.administration.revoke(asked.name))
    view.audit.note(view.viewer.name, "revoked the key", asked.name)
    return {"said": f"The key of {asked.name} is refused from now on.", "reload": True}


async def _key_remove(view: View, body: bytes) -> dict[str, Any]:
    asked = _operators(view, body)
    await _usable(view.gateway.accounts.administration.remove(asked.name))
    view.audit.note(view.viewer.name, "removed the caller", asked.name)
    return {"said": f"{asked.name} is removed.", "reload": True}


def _operators(view: View, body: bytes) -> _Key:
    require_operator(view.viewer.account)
    return decoded(body, _Key)


async def _usable(wanted: Awaitable[_T]) -> _T:
    try:
        return await wanted
    except UsageError as error:
        raise InvalidRequestError(error.message, code=error.code, status=400, hint=error.hint) from error


ACTIONS: Final[dict[str, Callable[[View, bytes], Awaitable[dict[str, Any]]]]] = {
    "switch": _switch,
    "run-once": _run_once,
    "fork": _fork,
    "doctor": _doctor,
    "answer": _answer,
    "key-create": _key_create,
    "key-limits": _key_limits,
    "key-rotate": _key_rotate,
    "key-revoke": _key_revoke,
    "key-remove": _key_remove,
}
