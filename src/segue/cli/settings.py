"""Settings as every command reads them: what a project that is not trusted has set in vain is reported on stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.cli.display.terminal import print_status
from segue.config.layers import load_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.config.layers import Settings


def read_settings(sets: Sequence[str] = ()) -> Settings:
    settings = load_settings(sets=sets)
    for line in settings.ignored:
        print_status(line)
    return settings
