"""`encrypted_content`: sealed for one account, unreadable to everybody else (RESP-46)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.emulators.signatures import seal, unseal

if TYPE_CHECKING:
    from segue.emulators.rules import Context

PREFIX = "gAAAAAB"


def issue(text: str, context: Context) -> str:
    claims = {"platform": context.platform, "account": context.account, "text": text}
    return seal(context.secret, claims, prefix=PREFIX)


def opens(sealed: str, context: Context) -> bool:
    claims = unseal(context.secret, sealed, prefix=PREFIX)
    return claims is not None and (claims.get("platform"), claims.get("account")) == (
        context.platform,
        context.account,
    )
