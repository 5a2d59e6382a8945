"""A worker that performs turns until it is killed: `python -m integrations.forked_worker integrations.dbos_worker EXECUTOR FOLDER DBOS_URL SESSIONS_URL SECONDS`."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from dbos import DBOS, DBOSConfig

from integrations.engine_agents import Agents
from segue.integrations.dbos import DBOSAgents


def main(executor: str, folder: str, url: str, database: str, seconds: str) -> None:
    config: DBOSConfig = {
        "name": "segue-crash",
        "system_database_url": url,
        "executor_id": executor,
        "application_version": "1",
        "log_level": "ERROR",
        "notification_listener_polling_interval_sec": 0.05,
    }
    DBOS(config=config)
    agents = DBOSAgents(Agents(Path(folder), database, seconds=float(seconds)).chat, polling_seconds=0.1)
    DBOS.launch()
    agents.register_queues()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    threading.Event().wait()
