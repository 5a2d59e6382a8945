"""The wires: each dialect is rules as data and pure functions for both directions; none knows another."""

from __future__ import annotations

from segue.namespace import public_names

_HOMES = {
    "segue.dialects.card": "ModelCard",
    "segue.dialects.dialect": "DecodedRequest Dialect EncodedRequest ReplyDecoder ReplyEncoder RequestEncoder",
    "segue.dialects.registry": "DIALECTS recognise",
}
__all__, __getattr__, __dir__ = public_names(__name__, _HOMES)
