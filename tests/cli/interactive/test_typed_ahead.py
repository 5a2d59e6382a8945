"""Keys that were typed before a prompt could be read."""

from __future__ import annotations

import asyncio
import os
import time

import pytest
from prompt_toolkit.application import Application
from prompt_toolkit.input import DummyInput
from prompt_toolkit.output import DummyOutput

from segue.cli.interactive.prompts.prompt_terminal import FRESH_SECONDS, PaintedGate


@pytest.mark.parametrize("late", [0.0, FRESH_SECONDS + 0.1])
def test_what_was_typed_before_a_prompt_could_be_read_does_not_count_however_late_it_is_read(
    late: float,
) -> None:
    async def read_keys() -> list[bool]:
        application: Application[str] = Application(input=DummyInput(), output=DummyOutput())
        gate, counted = PaintedGate(), list[bool]()
        gate.watch(application)
        keys, keyboard = os.pipe()
        loop = asyncio.get_running_loop()
        loop.add_reader(keys, lambda: counted.append(bool(os.read(keys, 1)) and gate.is_open()))
        application.after_render.fire()
        os.write(keyboard, b"y")
        time.sleep(late)  # the loop of a busy machine
        await asyncio.sleep(FRESH_SECONDS + 0.1)
        os.write(keyboard, b"y")
        await asyncio.sleep(0.1)
        loop.remove_reader(keys)
        os.close(keys)
        os.close(keyboard)
        return counted

    assert asyncio.run(read_keys()) == [False, True]
