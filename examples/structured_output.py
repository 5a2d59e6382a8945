"""Answers as values of our own types, and a file in a message. Run: python examples/structured_output.py"""

from __future__ import annotations

from dataclasses import dataclass

from segue import Chat, ScriptedProvider
from segue.errors import ProtocolError
from segue.providers import says


@dataclass(frozen=True)
class City:
    """A pydantic model, a TypedDict, a msgspec Struct or a JSON Schema would do as well."""

    name: str
    population: int


provider = ScriptedProvider(
    [
        says('{"name": "Oslo", "population": 717710}'),
        says("Rome, about three million."),
        says('{"name": "Rome", "population": 2746984}'),
        says("No idea."),
        says("Really none."),
    ]
)

with Chat("scripted/any", providers={"scripted": provider}).blocking() as chat:
    print(chat.send("The capital of Norway?", output=City).output)
    # A provider that takes schemas holds its model to them. Any other answer is checked, and asked for once more.
    print(chat.send("And of this country?", b"\x89PNG\r\n\x1a\n...", output=City).output)
    try:
        chat.send("And of Atlantis?", output=City)
    except ProtocolError as error:
        print(error.message, "It was:", error.answer.text)

# Prints:
# City(name='Oslo', population=717710)
# City(name='Rome', population=2746984)
# The answer is not JSON: JSON is malformed: invalid character (byte 0). It was: Really none.
