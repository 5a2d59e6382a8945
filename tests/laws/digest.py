"""What a transcript puts on the wire, as comparable text; as a program: a digest of many rendered histories."""

from __future__ import annotations

import hashlib
import pickle
import sys
from pathlib import Path

import msgspec
from msgspec import structs

from segue.transcript.render import render
from segue.transcript.steps import AnsweredCall, ModelStep, Transcript
from strategies.targets import TARGETS


def on_the_wire(transcript: Transcript) -> list[object]:
    """The steps without canonical ids, which no target ever sees."""
    return [
        step
        if not isinstance(step, ModelStep)
        else [
            structs.replace(block, call_id="") if isinstance(block, AnsweredCall) else block
            for block in step.blocks
        ]
        for step in transcript.steps
    ]


def all_text(transcript: Transcript) -> str:
    return msgspec.json.encode((transcript.system, on_the_wire(transcript))).decode()


def main(stored: str) -> None:
    summed = hashlib.sha256()
    for name, conversation in pickle.loads(Path(stored).read_bytes()):  # noqa: S301
        transcript = render(conversation, None, TARGETS[name])
        summed.update(all_text(transcript).encode() + msgspec.json.encode(transcript.repairs))
    sys.stdout.write(summed.hexdigest())


if __name__ == "__main__":
    main(sys.argv[1])
