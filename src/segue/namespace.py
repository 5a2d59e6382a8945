"""Public names that are loaded when they are first used, so that importing a namespace costs nothing.

A namespace writes its names once, under the modules that define them. What type checkers read instead, the `.pyi` file
beside it, is generated: `python -m scripts.namespaces --write`.
"""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # typing takes longer to load than all the rest of --version
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def public_names(
    namespace: str, homes: Mapping[str, str]
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """`__all__`, `__getattr__` and `__dir__` of a module that offers names of others. `homes`: names by module."""
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in home_of:
            message = f"module {namespace!r} has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=sys.modules[namespace])
        return getattr(import_module(home_of[name]), name)

    names = sorted(home_of)
    return names, load, names.copy
