"""A small model inside this process: no key, no server."""

from __future__ import annotations

from segue.providers.embedded.provider import EmbeddedProvider

__all__ = ["EmbeddedProvider"]
