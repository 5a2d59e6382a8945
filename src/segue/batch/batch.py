"""A batch of requests to one model: handed over to its batch endpoint, or asked one by one where there is none.

Its file holds all that is known. `run` performs the next step until every request has an outcome; killed at any moment, it
is run again, in any process, and continues. Nothing is handed over twice: a part that may be at the provider is looked for
there first.
"""

from __future__ import annotations

import time
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Self, TypeAlias, final

from msgspec import Struct, structs

from segue.batch.lines import BadLine, BatchRequest, bad_lines
from segue.batch.outcome import BatchResult, result_of
from segue.batch.runner import BatchRunner, Pace
from segue.batch.state_file import BatchFacts, Mode, StateFile, StoredRequest
from segue.batch.stored_requests import chat_request
from segue.conversation.document import encode_document
from segue.conversation.options import NO_OPTIONS, Options
from segue.errors import SegueError
from segue.providers.registry import default_registry
from segue.routing.route import Route, parse_route, provider_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from segue.providers.adapter import Providers

OnProgress: TypeAlias = "Callable[[BatchStatus], None]"
ENDING: Final = ".batch"


@final
class BatchStatus(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a batch is."""

    id: str
    model: str
    """provider/model"""
    source: str = ""
    created: float = 0.0
    mode: Mode = ""
    """`batch`: by a batch endpoint; `single`: one by one, because the provider has none; empty: nothing was sent yet."""
    total: int
    succeeded: int = 0
    failed: int = 0
    expired: int = 0
    cancelled: int = 0
    waiting: int = 0
    running: int = 0
    """Handed over, and without a result."""
    answered: int = 0
    """Of these, how many the provider reports as answered."""
    stopped: bool = False
    """Whether it was cancelled."""
    expires: float | None = None
    """When the provider gives up what runs: seconds since 1970."""
    batches: tuple[str, ...] = ()
    """The provider's ids of what runs."""
    cost: float | None = None
    """Dollars for what has a result. None: a price is unknown."""
    trouble: str = ""
    """Why the last step failed, while it is tried again."""

    @property
    def done(self) -> int:
        """Requests with an outcome."""
        return self.succeeded + self.failed + self.expired + self.cancelled

    @property
    def is_complete(self) -> bool:
        return self.done == self.total


@final
class Batch:
    """One batch, stored in its own file."""

    def __init__(self, state: StateFile, providers: Providers | None = None) -> None:
        """Use `create` or `open`."""
        self._state = state
        self._providers = default_registry() if providers is None else providers
        self.facts = state.facts
        self.route: Route = parse_route(self.facts.model)

    @property
    def id(self) -> str:
        return self.facts.id

    @property
    def path(self) -> Path:
        return self._state.path

    @classmethod
    def create(
        cls,
        requests: Sequence[BatchRequest],
        model: str,
        directory: Path,
        *,
        providers: Providers | None = None,
        options: Options = NO_OPTIONS,
        retries: int = 2,
        source: str = "",
        run_number: int = 1,
    ) -> Self:
        """A batch of these requests in this directory; nothing is sent yet. The same requests to the same model are the same
        batch, which is opened; another `run_number` makes it another one.

        `options`: for requests that do not set them. `retries`: how often a request is asked again after it expired or failed
        for a reason that passes. Every request is rendered for the model first: raises UsageError with the number of each line
        that cannot be sent.
        """
        registry = default_registry() if providers is None else providers
        route = parse_route(model)
        wanted = [structs.replace(one, options=one.options.over(options)) for one in requests]
        documents = [
            encode_document(one.conversation, one.ledger, tools=one.tools, options=one.options)
            for one in wanted
        ]
        digest = sha256(f"{route.name} {run_number}".encode())
        for one, document in zip(wanted, documents, strict=True):
            digest.update(one.name.encode() + b"\n" + document + b"\n")
        facts = BatchFacts(
            id=digest.hexdigest()[:12], model=route.name, source=source, created=time.time(), retries=retries
        )
        path = directory / f"{facts.id}{ENDING}"
        if not path.exists():
            _refuse_bad(wanted, route, registry)
        rows = [(one.name, one.line, document) for one, document in zip(wanted, documents, strict=True)]
        return cls(StateFile.create(path, facts, rows), registry)

    @classmethod
    def open(cls, path: Path, providers: Providers | None = None) -> Self:
        """Raises UsageError if there is none."""
        return cls(StateFile.open(path), providers)

    def close(self) -> None:
        self._state.close()

    # What is known

    def status(self) -> BatchStatus:
        counts = self._state.counts()
        running = [part.batch for part in self._state.parts() if part.state == "running" and part.batch]
        return BatchStatus(
            id=self.id,
            model=self.route.name,
            source=self.facts.source,
            created=self.facts.created,
            mode=self._state.mode,
            total=sum(counts.values()),
            succeeded=counts.get("succeeded", 0),
            failed=counts.get("failed", 0),
            expired=counts.get("expired", 0),
            cancelled=counts.get("cancelled", 0),
            waiting=counts.get("waiting", 0),
            running=counts.get("asked", 0),
            answered=sum(batch.done for batch in running),
            stopped=self._state.cancelled,
            expires=min((batch.expires for batch in running if batch.expires), default=None),
            batches=tuple(batch.id for batch in running),
            cost=self._state.cost(),
        )

    def results(self) -> Iterator[BatchResult]:
        """One for each request, in the order of the lines."""
        for stored in self._state.requests():
            yield result_of(stored, structured=b'"response_schema"' in stored.document)

    def stored(self) -> Iterator[StoredRequest]:
        """The requests with their outcomes, as they are kept."""
        return self._state.requests()

    def note_session(self, stored: StoredRequest, session: str) -> None:
        """A result was saved as a session."""
        self._state.save_session(stored.place, session)

    # What is done

    async def run(
        self,
        *,
        wait: bool = True,
        on_progress: OnProgress | None = None,
        concurrency: int = 4,
        pace: Pace = Pace(),  # noqa: B008 - frozen
    ) -> BatchStatus:
        """Perform one step after the other until every request has an outcome.

        `wait`: else it returns once all is handed over and what has ended is taken. `concurrency`: requests at once, where they
        are asked one by one. Raises UsageError while another process does this, and what keeps it from continuing; run again, it
        continues.
        """
        report = on_progress or (lambda _: None)
        runner = BatchRunner(self._state, self.route, self._providers, pace=pace, concurrency=concurrency)

        def changed() -> None:
            report(structs.replace(self.status(), trouble=runner.trouble))

        with self._state.locked():
            changed()
            await runner.run(changed, wait=wait)
        return self.status()

    async def cancel(self) -> BatchStatus:
        """Hand nothing more over, and ask the provider to stop what runs. What it has answered by then is kept, and charged."""
        await BatchRunner(self._state, self.route, self._providers).cancel()
        return self.status()


def batch_files(directory: Path) -> list[Path]:
    """The files of all batches in a directory, the newest first."""
    return sorted(directory.glob(f"*{ENDING}"), key=lambda path: path.stat().st_mtime, reverse=True)


def _refuse_bad(requests: Sequence[BatchRequest], route: Route, providers: Providers) -> None:
    """Raises UsageError for all requests that cannot be rendered for the model."""
    provider = provider_of(route, providers)
    access, preview = provider.capabilities.batches, provider.capabilities.preview
    forward = provider.capabilities.forward
    wire = forward.target(route.model).dialect if forward is not None else ""
    bad = list[BadLine]()
    for one in requests:
        if one.held_by and one.held_by != wire:
            bad.append(BadLine(one.line, f"It names files by ids, which {route.provider} does not hold."))
            continue
        request = chat_request(one, route, providers)
        try:
            if access is not None:
                access.write(request)
            elif preview is not None:
                preview(request)
        except SegueError as error:
            if error.remedy == "log_in":
                raise
            bad.append(BadLine(one.line, f"{error.message} {error.hint}".strip()))
    if bad:
        raise bad_lines(bad)
