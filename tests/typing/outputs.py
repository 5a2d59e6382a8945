"""Answers of a type, files in a message, and what holds for one turn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, assert_type

import msgspec
from pydantic import BaseModel

from segue import Answer, Chat, Options, TurnOptions, attachment


@dataclass
class Place:
    """A dataclass."""

    city: str


class Typed(TypedDict):
    """A TypedDict."""

    city: str


class Held(msgspec.Struct):
    """A Struct."""

    city: str


class Model(BaseModel):
    """A pydantic model."""

    city: str


async def ask(chat: Chat) -> None:
    assert_type((await chat.send("Where?", output=Place)).output, Place)
    assert_type((await chat.send("Where?", output=Typed)).output, Typed)
    assert_type((await chat.send("Where?", output=Held)).output, Held)
    assert_type((await chat.send("Where?", output=Model)).output.city, str)
    assert_type((await chat.send("Where?", output=list[Place])).output, list[Place])
    assert_type((await chat.send("Where?", output={"type": "object"})).output, Any)
    assert_type((await chat.resume(output=Place)).output, Place)
    shown(await chat.send("Where?", output=Place))


def shown(answer: Answer) -> str:
    return answer.text


def block(chat: Chat, picture: Path) -> None:
    with chat.blocking() as blocking:
        assert_type(
            blocking.send("Where?", picture, b"%PDF-", attachment("a.png"), output=Place).output, Place
        )
        turn: TurnOptions = {"model": "openai/any", "max_turns": 2}
        blocking.send("Hello", **turn)
        blocking.send("Hello", tools=[], options=Options(seed=1))
        for event in blocking.stream("Hello", **turn):
            if event.type == "text":
                assert_type(event.text, str)
        blocking.send("Hello", modle="a")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
