"""How many examples a property test runs where the profile alone would run too few."""

from __future__ import annotations

import os

from hypothesis import settings

AT_LEAST_100 = settings(
    max_examples=max(100, settings.default.max_examples if settings.default else 100),
    derandomize=bool(os.environ.get("CI")),
    print_blob=True,
    database=None,
)
"""For the numbered properties of the requirements: a hundred examples each, fresh ones in every run at a desk. Continuous
integration repeats one set, so that its verdict is about the change."""
