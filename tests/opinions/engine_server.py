"""The same server of llama.cpp inside the engine's wheel, for machines on which the other program cannot run.

python engine_server.py MODEL PORT [TEMPLATE]
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

SECONDS = 1800.0


def main(model: str, port: str, template: str = "") -> None:
    engine: Any = import_module("xllamacpp")
    parameters = engine.CommonParams()
    parameters.model.path = model
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = int(port)
    parameters.n_ctx, parameters.n_parallel = 8192, 1
    parameters.cpuparams.n_threads = 1
    parameters.warmup = False
    parameters.use_jinja = True
    if template:
        parameters.chat_template = Path(template).read_text("utf-8")
    server = engine.Server(parameters)
    time.sleep(SECONDS)
    del server


if __name__ == "__main__":
    main(*sys.argv[1:])
