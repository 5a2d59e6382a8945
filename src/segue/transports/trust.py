"""The authorities whose certificates are trusted."""

from __future__ import annotations

import os
import ssl
from functools import lru_cache

from segue.errors import UsageError


def trusted_certificates() -> ssl.SSLContext:
    """Those of the file that the environment names now; the system's own where none is named."""
    return _context(os.environ.get("SSL_CERT_FILE") or os.environ.get("REQUESTS_CA_BUNDLE", ""))


@lru_cache(maxsize=4)
def _context(file: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=file or None)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f'The certificates in "{file}" cannot be read: {error}.',
            code="bad_certificates",
            hint="Check SSL_CERT_FILE and REQUESTS_CA_BUNDLE.",
        ) from error
    context.set_alpn_protocols(["http/1.1"])
    return context
