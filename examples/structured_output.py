"""An answer that follows a JSON schema, read into a type of our own. Run: python examples/structured_output.py"""

from __future__ import annotations

import json
from dataclasses import dataclass

from segue import Chat, Options, ScriptedProvider
from segue.providers import says

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "population": {"type": "integer"}},
    "required": ["city", "population"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class City:
    """What the schema describes."""

    city: str
    population: int


# The schema goes to the provider in its own words; one that holds its models to schemas guarantees the shape.
provider = ScriptedProvider([says('{"city": "Oslo", "population": 717710}')])
options = Options(response_schema=SCHEMA)

with Chat("scripted/any", options=options, providers={"scripted": provider}).blocking() as chat:
    answer = chat.send("The capital of Norway?")
    print(City(**json.loads(answer.text)))

# Prints:
# City(city='Oslo', population=717710)
