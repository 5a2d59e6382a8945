"""A pytest plugin that prints which test shows which requirement."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        test = item.nodeid.partition("[")[0]
        for marker in item.iter_markers("requirement"):
            for name in marker.args:
                print(f"requirement\t{name}\t{test}")
