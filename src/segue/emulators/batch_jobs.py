"""Batches of requests that are answered later: what all providers have in common.

The work is done when somebody looks: by then as many requests are answered as the clock allows. Each is answered by the very
handler of its path, so a batch refuses what a single request is refused for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, structs

from segue.emulators import provider_paths
from segue.emulators.emulator import account_of
from segue.emulators.faults import instead
from segue.emulators.http import Request, error_response
from segue.emulators.rules import RefusedError

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator
    from segue.emulators.http import Response

State: TypeAlias = Literal["running", "done", "expired", "cancelled"]
DAY = 86_400.0


class Task(Struct, frozen=True):
    """One request of a batch."""

    name: str
    """The client's own id of it."""
    path: str
    body: Mapping[str, Any]
    refusal: Mapping[str, Any] | None = None
    """Why it is not answered, where a batch takes less than a single request."""


class Answered(Struct, frozen=True):
    """The answer to one request: its status, and its body as JSON."""

    status: int
    body: Any


class Job(Struct, kw_only=True):
    """A batch. `record` is what the provider's module keeps about it."""

    id: str
    account: str
    request: Request
    """With which it was created: its requests are sent with the same headers."""
    created: float
    window: float
    """Seconds after which what is not answered has expired."""
    tasks: tuple[Task, ...] = ()
    record: dict[str, Any] = {}
    cancelled: float = inf
    ended: float = inf
    answers: list[Answered] = []
    """Of the first tasks, in their order."""

    @property
    def stop(self) -> float:
        return min(self.created + self.window, self.cancelled)

    def state(self, now: float) -> State:
        if len(self.answers) == len(self.tasks):
            return "done"
        if now < self.stop:
            return "running"
        return "cancelled" if self.cancelled <= self.created + self.window else "expired"


def advance(job: Job, emulator: Emulator) -> State:
    """Answer what is due by now; the state of the batch after that."""
    now = emulator.clock()
    elapsed = min(now, job.stop) - job.created - emulator.batch_delay
    rate, count = emulator.batch_rate, len(job.tasks)
    due = 0 if elapsed < 0 else count if rate == inf else int(elapsed * rate)
    for task in job.tasks[len(job.answers) : due]:
        job.answers.append(_answer(task, job, emulator))
    state = job.state(now)
    if state != "running" and job.ended == inf:
        job.ended = min(now, job.stop)
    return state


def _answer(task: Task, job: Job, emulator: Emulator) -> Answered:
    if task.refusal is not None:
        return Answered(400, task.refusal)
    found = provider_paths.find("POST", f"/{job.request.mounted}{task.path}")
    if found is None or found.handler is None:
        return Answered(404, {"error": {"message": f"Invalid URL (POST {task.path})"}})
    request = structs.replace(
        job.request,
        method="POST",
        path=task.path,
        query={},
        params=found.params,
        body=msgspec.json.encode(task.body),
    )
    errors = found.mounted.errors
    if emulator.batch_faults:
        context = emulator.context(request, provider=found.mounted.provider)
        return _whole(instead(emulator.batch_faults.popleft(), errors, context))
    try:
        return _whole(found.handler(request, emulator))
    except RefusedError as refused:
        return _whole(error_response(errors, refused.refusal, refused.context))


def _whole(response: Response) -> Answered:
    body = response.body if isinstance(response.body, bytes) else b"".join(response.body)
    return Answered(response.status, msgspec.json.decode(body or b"null"))


def in_other_order(job: Job) -> list[int]:
    """The places of the tasks in the order of the results, which is none that a client could rely on."""
    return sorted(
        range(len(job.tasks)), key=lambda place: hashlib.sha256(f"{job.id}{place}".encode()).digest()
    )


def keep(job: Job, emulator: Emulator, provider: str) -> None:
    emulator.memory(provider).setdefault("batches", {})[job.id] = job


def jobs_of(request: Request, emulator: Emulator, provider: str) -> list[Job]:
    """Those of the account, the newest first."""
    held: dict[str, Job] = emulator.memory(provider).get("batches", {})
    return [job for job in reversed([*held.values()]) if job.account == account_of(request)]


def find(request: Request, emulator: Emulator, provider: str) -> Job | None:
    return next((job for job in jobs_of(request, emulator, provider) if job.id == request.params["id"]), None)


def forget(job: Job, emulator: Emulator, provider: str) -> None:
    del emulator.memory(provider)["batches"][job.id]
