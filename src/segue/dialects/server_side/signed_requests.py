"""Requests that a client of AWS signs, on any wire, at a server that knows the client's key.

The key stands for both halves of AWS's credentials: the access key names it, and the signature is made with it as the secret.
So a server that keeps only digests of keys can find the caller before it reads the body, and check the signature behind it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, final

from segue.dialects.sigv4 import SCHEME, is_signed_with, read_authorization

if TYPE_CHECKING:
    from collections.abc import Mapping

_LATEST: Final = timedelta(minutes=15)
"""By so much clocks may differ; a signature is no use later."""
_ADVICE: Final = "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY both to your key of this gateway, or AWS_BEARER_TOKEN_BEDROCK to it."


@final
class SignedRequests:
    """Signatures of version 4."""

    advice = _ADVICE

    def is_signed(self, headers: Mapping[str, str]) -> bool:
        return headers.get("authorization", "").startswith(SCHEME)

    def key(self, headers: Mapping[str, str]) -> str:
        """The key that a signed request names; empty if its signature cannot be read."""
        signed = read_authorization(headers.get("authorization", ""))
        return signed.access_key if signed is not None else ""

    def problem(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes, *, now: datetime
    ) -> str:
        signed = read_authorization(headers.get("authorization", ""))
        if signed is None or not is_signed_with(signed.access_key, signed, method, target, headers, body):
            return "The signature of this request was not made with the key that it names."
        moment = _moment(headers["x-amz-date"])
        if moment is None or abs(moment - now) > _LATEST:
            return "The signature of this request is too old, or its clock is wrong."
        return ""


def _moment(written: str) -> datetime | None:
    try:
        return datetime.strptime(written, "%Y%m%dT%H%M%S%z")
    except ValueError:
        return None
