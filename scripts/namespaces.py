"""What type checkers read of the lazy namespaces: the `.pyi` files beside them. Without --write it fails when they are
out of date."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

NAMESPACES = (
    "segue",
    "segue.batch",
    "segue.dialects",
    "segue.emulators",
    "segue.errors",
    "segue.events",
    "segue.gateway",
    "segue.interop",
    "segue.providers",
    "segue.routing",
    "segue.steps",
    "segue.stores",
    "segue.telemetry",
    "segue.testing",
    "segue.tools",
    "segue.transports",
)
"""Where the documented names of segue are; everything else may change from one version to the next."""


def stub(namespace: str) -> str:
    module = import_module(namespace)
    lines = ["# Written by python -m scripts.namespaces --write", ""]
    lines += [f"from {home} import {', '.join(names.split())}" for home, names in module._HOMES.items()]
    if hasattr(module, "__version__"):
        lines += ["", "__version__: str"]
    return "\n".join([*lines, "", "__all__ = [", *(f'    "{name}",' for name in module.__all__), "]", ""])


def stubs() -> dict[Path, str]:
    """The text of each file. Namespaces that define their names themselves have none."""
    modules = {name: import_module(name) for name in NAMESPACES}
    return {
        Path(module.__file__ or "").with_suffix(".pyi"): stub(name)
        for name, module in modules.items()
        if hasattr(module, "_HOMES")
    }


def main(words: list[str]) -> int:
    outdated = {
        path: text for path, text in stubs().items() if not path.exists() or path.read_text("utf-8") != text
    }
    if "--write" in words:
        for path, text in outdated.items():
            path.write_text(text, "utf-8")
    elif outdated:
        names = ", ".join(str(path.relative_to(Path.cwd())) for path in outdated)
        print(f"{names}: out of date, run python -m scripts.namespaces --write", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
