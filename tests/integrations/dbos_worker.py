"""A worker that performs turns until it is killed: `python -m integrations.dbos_worker FOLDER EXECUTOR DBOS_URL [SESSIONS_URL]`."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from dbos import DBOS, DBOSConfig

from integrations.engine_agents import Agents
from segue.integrations.dbos import DBOSAgents


def launch(folder: Path, executor: str, url: str, database: str = "") -> DBOSAgents:
    config: DBOSConfig = {
        "name": "segue-crash",
        "system_database_url": url,
        "executor_id": executor,
        "application_version": "1",
        "log_level": "ERROR",
        "notification_listener_polling_interval_sec": 0.05,
    }
    DBOS(config=config)
    agents = DBOSAgents(Agents(folder, database).chat, polling_seconds=0.1)
    DBOS.launch()
    agents.register_queues()
    return agents


if __name__ == "__main__":
    place, name, system, *rest = sys.argv[1:]
    launch(Path(place), name, system, *rest)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    threading.Event().wait()
