"""Folders for tests of the sandbox. Not temporary ones: of these it has its own, and what is not seen is no proof. And not in
the home of whoever runs the tests."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

import pytest

_TEMPORARY: Final = tuple(
    os.path.realpath(place) for place in ("/tmp", "/var/tmp", "/run", tempfile.gettempdir())
)
_PLACES: Final = (Path(__file__).parents[3] / "build", Path("/srv"), Path("/opt"), Path("/var/lib"))
"""The folder of the repository for what is built; others where the repository itself is a temporary one."""


def lasting_folder() -> Path:
    """A new one, which its caller removes."""
    for place in _PLACES:
        whole = os.path.realpath(place)
        if any(f"{whole}/".startswith(f"{temporary}/") for temporary in _TEMPORARY):
            continue
        try:
            place.mkdir(exist_ok=True)
            return Path(tempfile.mkdtemp(prefix="segue-sandbox-", dir=whole))
        except OSError:
            continue
    pytest.skip("the repository is in a temporary folder, and no other place but the home can be written")
