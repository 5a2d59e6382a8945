"""How a chat begins: its settings, and the session that is made of them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, final

from msgspec import Struct

from segue.chat.budget import Budget
from segue.chat.compaction.trigger import CompactionSettings, Shortening
from segue.chat.exchange import Terms
from segue.chat.session import Session
from segue.conversation.options import Options
from segue.errors import JournalError, UsageError
from segue.providers.adapter import Providers
from segue.sessions.entries import Link, SessionStarted, SettingsChanged
from segue.sessions.journal import Journal
from segue.sessions.stores.memory import MemoryStore
from segue.sessions.stores.store import Store
from segue.tools.approval import Approval
from segue.tools.definition import Approves, Host, Tool
from segue.tools.scheduler import Scheduler
from segue.transcript.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Iterable


@final
class Settings(Struct, frozen=True, kw_only=True):
    """Everything about a chat that is neither its model nor what is said in it."""

    tools: tuple[Tool, ...] = ()
    system: str = ""
    session: str | None = None
    store: Store | None = None
    providers: Providers | None = None
    options: Options = Options()
    budget: Budget = Budget()
    approval: Approves | None = None
    policy: Policy = Policy()
    compaction: CompactionSettings = CompactionSettings()
    title: str = ""
    directory: str = ""
    parent: Link | None = None
    take_over: bool = False


async def open_journal(settings: Settings, store: Store, model: str) -> Journal:
    """The session that was asked for, as it was left; or a new one."""
    if settings.session is not None:
        try:
            journal = await Journal.resume(store, settings.session, take_over=settings.take_over)
        except JournalError as error:
            if error.code != "unknown_session":
                raise
        else:
            await _bring_up_to_date(journal, settings)
            return journal
    started = SessionStarted(
        model=model,
        system=settings.system,
        title=settings.title,
        directory=settings.directory,
        parent=settings.parent,
        options=settings.options,
    )
    return await Journal.start(store, started, settings.session or "")


def make_session(journal: Journal, settings: Settings, providers: Providers) -> Session:
    """A session with the one scheduler that it will ever have."""
    approval = settings.approval or own_functions_only(settings.tools)
    host = Host(providers=providers, store=journal.store, approval=settings.approval)
    terms = Terms(
        providers=providers,
        session=journal.session,
        tools=tuple(tool.spec for tool in settings.tools),
        options=journal.state.options,
        policy=settings.policy,
    )
    return Session(
        journal,
        terms,
        Scheduler(journal, {tool.name: tool for tool in settings.tools}, host, approval),
        Shortening(journal, terms, settings.compaction),
        budget=settings.budget,
    )


def own_functions_only(tools: Iterable[Tool]) -> Approval:
    """Where nobody said who may call what: functions that somebody wrote for this chat run, and tools that read.

    Tools of other programs do not, nor those that declare that they edit files, run programs or ask the network.
    """
    own = [tool.name for tool in tools if tool.effect == "other" and not tool.foreign]
    return Approval("ask", allow=own)


def default_store() -> Store:
    return MemoryStore()


@lru_cache(maxsize=1)
def default_providers() -> Providers:
    """One registry for all chats: they share its connections."""
    from segue.providers.registry import default_registry  # noqa: PLC0415 - reads what is configured

    return default_registry()


def checked_tools(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    named: dict[str, Tool] = {}
    for tool in tools:
        if tool.name in named:
            raise UsageError(
                f'Two tools are called "{tool.name}".',
                code="duplicate_tool",
                hint="Give one of them another name.",
            )
        named[tool.name] = tool
    return tuple(named.values())


async def _bring_up_to_date(journal: Journal, settings: Settings) -> None:
    """What is said now holds from now on; what is not said stays as the session has it."""
    state = journal.state
    changed = SettingsChanged(
        system=settings.system if settings.system not in ("", state.conversation.system) else None,
        options=settings.options if settings.options not in (Options(), state.options) else None,
        title=settings.title if settings.title not in ("", state.title) else None,
    )
    if changed != SettingsChanged():
        await journal.append(changed)
