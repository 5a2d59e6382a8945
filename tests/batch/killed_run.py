"""One run of a batch in a process of its own, which the test kills: python -m batch.killed_run FOLDER URL MODEL COUNT RUN"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from batch.worlds import PATHS, QUICK, prompts
from segue.batch import Batch, read_lines
from segue.providers.config import ProviderConfig
from segue.providers.registry import default_registry


def main(folder: str, url: str, model: str, count: str, run: str) -> None:
    configs = {name: ProviderConfig(base_url=f"{url}/{name}{path}") for name, path in PATHS.items()}
    keys = {f"{name.upper()}_API_KEY": "k" for name in PATHS} | {"MOONSHOT_API_KEY": "k"}
    providers = default_registry(configs, keys, keyring=False)
    requests = read_lines(prompts(int(count)).encode())
    batch = Batch.create(requests, model, Path(folder), providers=providers, run_number=int(run))
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    asyncio.run(batch.run(pace=QUICK))
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
