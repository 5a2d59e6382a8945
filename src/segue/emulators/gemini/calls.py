"""Calls and their results, one against the other: GEM-13, GEM-17."""

from __future__ import annotations

import itertools
from collections import Counter

from segue.emulators.gemini import typed_contents
from segue.emulators.gemini.typed_contents import Body, Content, refused
from segue.emulators.rules import Complaints, rule

# Which of the two disagrees, the API does not tell.
BARE = "Request contains an invalid argument."


def complaints(body: Body) -> Complaints:
    contents = typed_contents.contents_of(body)
    yield from nameless(contents)
    yield from mismatched(contents)


@rule("GEM-13")
def nameless(contents: list[Content]) -> Complaints:
    for content in contents:
        for field, found in (("function_call", content.calls), ("function_response", content.responses)):
            for place, value in found:
                if not value.get("name"):
                    where = f"contents[{content.index}].parts[{place}].{field}.name"
                    text = f"* GenerateContentRequest.{where}: Name cannot be empty."
                    yield refused("GEM-13", text)


@rule("GEM-13")
@rule("GEM-17", "M")
def mismatched(contents: list[Content]) -> Complaints:
    """Results name the calls they answer; ids repeat within a session, so only neighbours are compared."""
    for before, content in itertools.pairwise(contents):
        calls = [call for _, call in before.calls]
        responses = [response for _, response in content.responses]
        if not calls or len(calls) != len(responses):
            continue
        if Counter(call.get("name") for call in calls) != Counter(one.get("name") for one in responses):
            yield refused("GEM-13", BARE)
            continue
        known = {(call.get("id"), call.get("name")) for call in calls}
        if any(one.get("id") and (one["id"], one.get("name")) not in known for one in responses):
            yield refused("GEM-17", BARE, "M")
