"""Real weights, fetched once and kept outside of the repository; without them these tests are skipped and say why."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from platformdirs import user_cache_path

from segue.errors import SegueError
from segue.providers.embedded.engine import INSTALL, is_installed
from segue.providers.embedded.provider import EmbeddedProvider

SMALL = "smollm2"


@pytest.fixture(scope="session")
def models() -> Path:
    """A folder with the weights of the smallest model in it."""
    if not is_installed():
        pytest.skip(f"the engine is not installed: {INSTALL}")
    told = os.environ.get("SEGUE_TEST_MODELS")
    folder = Path(told) if told else user_cache_path("segue", appauthor=False) / "test-models"
    try:
        asyncio.run(EmbeddedProvider(folder=folder).pull_model(SMALL))
    except SegueError as error:
        pytest.skip(f"the weights of {SMALL} cannot be fetched: {error}")
    return folder


@pytest.fixture(scope="session")
def provider(models: Path) -> Iterator[EmbeddedProvider]:
    """One model in memory for all tests: loading it takes longer than most of them."""
    embedded = EmbeddedProvider(folder=models, model=SMALL, context=512)
    yield embedded
    embedded.close()
