"""Thought signatures: issued over the part that carries them, wanted back on the first call of each step.

A signature claims who issued it, for which generation of models, and which call it came with; a signature on text
claims only that it came with text, since clients join the portions of a stream.
"""

from __future__ import annotations

from base64 import b64encode

from segue.emulators import signatures
from segue.emulators.gemini.contents import Body, Content, contents_of, refused
from segue.emulators.rules import Complaints, Context, rule

PREFIX = "EukB"
_WORDS = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
# REST clients send the words as they are, clients with a bytes field in base64 (GEM-22).
SENTINELS = frozenset({*_WORDS, *(b64encode(word.encode()).decode().rstrip("=") for word in _WORDS)})
MISSING = (
    "Function call is missing a thought_signature in functionCall parts. This is required for tools to work"
    " correctly, and missing thought_signature may lead to degraded model performance. Additional data, function"
    " call `default_api:{name}` , position {position}. Please refer to"
    " https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
)


@rule("GEM-24", "M")
def complaints(body: Body, context: Context) -> Complaints:
    # Older models and image models take signatures or leave them (GEM-24).
    if context.facts.get("signatures_required") is not True:
        return
    contents = contents_of(body)
    yield from missing(contents)
    if not context.facts.get("trust_foreign_signatures"):
        yield from corrupted(contents, context)


@rule("GEM-21")
@rule("GEM-22")
def missing(contents: list[Content]) -> Complaints:
    for content in current_turn(contents):
        if content.role != "model" or not content.calls:
            continue
        place, call = content.calls[0]
        if not content.parts[place].get("thought_signature"):
            text = MISSING.format(name=call.get("name", ""), position=content.index)
            yield refused("GEM-21", text)


def current_turn(contents: list[Content]) -> list[Content]:
    """What came after the user last said something that is not a result."""
    start = 0
    for content in contents:
        said = any("function_response" not in part for part in content.parts)
        if content.role == "user" and said:
            start = content.index + 1
    return contents[start:]


@rule("GEM-20")
@rule("GEM-23")
def corrupted(contents: list[Content], context: Context) -> Complaints:
    for content in contents:
        for part in content.parts:
            signature = part.get("thought_signature")
            if not signature or signature.rstrip("=") in SENTINELS:
                continue
            born = signatures.unseal(context.secret, canonical(signature), PREFIX)
            if born is None or any(born[key] != value for key, value in owner(context).items()):
                yield refused("GEM-23", "Corrupted thought signature.")
            elif born["part"] != bound(part):
                # The seal is ours, but it came with something else: moved or stale.
                yield refused("GEM-20", "Invalid thought signature.")


def sign(part: Body, context: Context) -> str:
    sealed = signatures.seal(context.secret, {**owner(context), "part": bound(part)}, PREFIX)
    return sealed.replace("-", "+").replace("_", "/")


def canonical(signature: str) -> str:
    """Clients re-encode the bytes: in either alphabet, with or without padding."""
    plain = signature.rstrip("=").replace("+", "-").replace("/", "_")
    return plain + "=" * (-len(plain) % 4)


def owner(context: Context) -> dict[str, str]:
    return {
        "platform": context.platform,
        "account": context.account,
        "family": f"gemini-{context.facts.get('generation', 0)}",
    }


def bound(part: Body) -> str:
    call = part.get("function_call")
    return signatures.digest([call.get("name"), call.get("args") or {}]) if call is not None else "text"
