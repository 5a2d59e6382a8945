"""Turns that DBOS has lost in this process.

DBOS waits for its database while that is away, but it does not recognise every failed connection as such (a server on a socket
that is gone, a name that does not resolve). Then the workflow fails in memory, or never begins although this process has claimed
it. Its row stays as it is until the process restarts, which may be never. What is found so is given back to its queue; whoever
takes it continues where the journal stops, and the lost execution can write nothing more.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, final

from dbos import DBOS, error
from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

LOOK_SECONDS: float = 30.0
"""Between two looks. A workflow is given back at the second one that finds it lost: between its claim and its beginning it looks
the same."""
_PAUSE: Final = 1.0
_AWAY: Final = (OperationalError, InterfaceError, PoolTimeout)
_ANY: Final = "local"
"""The id of every process that was not given one. Others may have it too, so what runs there cannot be told from what is lost."""


@final
class WorkflowRecovery:
    """Knows what runs in this process."""

    def __init__(self, queues: Mapping[str, str]) -> None:
        """`queues`: of each workflow, by its name."""
        self._queues = queues
        self._running: Counter[str] = Counter()

    @asynccontextmanager
    async def running(self, name: str) -> AsyncIterator[None]:
        """Around a workflow."""
        workflow = DBOS.workflow_id or ""
        self._running[workflow] += 1
        try:
            yield
        except _AWAY:
            # Given back before it fails: its failure must not be written, should the database come back in this moment.
            await _give_back_patiently(workflow, self._queues[name])
            raise
        finally:
            self._running[workflow] -= 1
            if not self._running[workflow]:
                del self._running[workflow]

    def watch(self) -> None:
        """Look for what is lost, until DBOS is destroyed."""
        if DBOS.executor_id != _ANY:
            threading.Thread(target=self._watch, name="segue-dbos-recovery", daemon=True).start()

    def _watch(self) -> None:
        missing: dict[str, str] = {}
        while True:
            time.sleep(LOOK_SECONDS)
            try:
                idle = self._idle()
                for workflow in idle.keys() & missing.keys():
                    _give_back(workflow, idle[workflow])
                    del idle[workflow]
            except error.DBOSException:
                return
            except SQLAlchemyError:
                continue
            missing = idle

    def _idle(self) -> dict[str, str]:
        """The queues of workflows that this process has claimed, and that do not run in it."""
        listed = DBOS.list_workflows(
            status="PENDING",
            executor_id=DBOS.executor_id,
            name=[*self._queues],
            load_input=False,
            load_output=False,
        )
        return {
            one.workflow_id: self._queues[one.name] for one in listed if one.workflow_id not in self._running
        }


def _give_back(workflow: str, queue: str) -> None:
    DBOS.resume_workflow(workflow, queue_name=queue)


async def _give_back_patiently(workflow: str, queue: str) -> None:
    """Waits until the database can be reached. In a thread, for what a workflow asks of DBOS itself becomes one of its steps."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            await loop.run_in_executor(None, _give_back, workflow, queue)
        except _AWAY:
            await asyncio.sleep(_PAUSE)
        else:
            return
