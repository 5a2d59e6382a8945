"""Fields of one wire that the values have no place for."""

from __future__ import annotations

import pytest

from segue.conversation.extra import Extra


@pytest.mark.parametrize(
    ("extra", "reported"),
    [
        (Extra("a"), False),
        (Extra("a", form={"id": "x"}, absent=("type",)), False),
        (Extra("a", fields={"citations": []}), True),
        (Extra("a", hints={"cache_control": {}}), True),
        (Extra("a", container=Extra("a", form={"id": "x"})), False),
        (Extra("a", container=Extra("a", fields={"name": "x"})), True),
    ],
)
def test_what_has_a_meaning_or_helps_the_provider_is_reported_and_the_form_is_not(
    extra: Extra, reported: bool
) -> None:
    assert extra.reported is reported


def test_a_value_is_written_the_way_it_came() -> None:
    extra = Extra("a", fields={"f": 1}, hints={"h": 2}, form={"id": 3}, absent=("type",))
    assert extra.written({"type": "text", "text": "x"}) == {"text": "x", "id": 3, "h": 2, "f": 1}
