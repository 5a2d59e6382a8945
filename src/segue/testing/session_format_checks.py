"""What every session format must do, as a suite that its author can run.

    def test_my_format() -> None:
        check_session_format(MyFormat())

What a format cannot hold is named (`without=("images",)`), and not asked for: "images", "images in results", "failures" (whether a
result is an error). A check that fails says what was expected.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from msgspec import structs

from segue.conversation.blocks import Media, Text
from segue.conversation.message import Conversation
from segue.errors import TranscriptError, UsageError
from segue.interop.added_formats import SessionFormat
from segue.interop.agents.session_file import SessionPlan
from segue.interop.agents.session_steps import ModelReply, Prompt, Step, StoredCall, steps_of
from segue.interop.agents.tool_names import ToolNames
from segue.interop.doctor import examine
from segue.interop.repair import repair_conversation
from segue.interop.session_formats import NAMES, session_format
from segue.interop.source import SourceRequest

Check: TypeAlias = Callable[[SessionFormat, Collection[str]], None]

ABILITIES: Final = ("images", "images in results", "failures")

_PIXEL: Final = Media("image", mime="image/png", data="iVBORw0KGgo=")
_LONGEST_NAME: Final = 255
_CUTS: Final = 60


def check_session_format(checked: SessionFormat, *, without: Collection[str] = ()) -> None:
    """Run every check. Raises AssertionError with the name of the check and what it expected. `without`: what the format cannot
    hold."""
    if unknown := {*without} - {*ABILITIES}:
        raise UsageError(f"{sorted(unknown)} is not one of {', '.join(ABILITIES)}.", code="unknown_ability")
    for check in CHECKS:
        run_check(check, checked, without=without)


def run_check(check: Check, checked: SessionFormat, *, without: Collection[str] = ()) -> None:
    try:
        check(checked, without)
    except AssertionError as error:
        raise AssertionError(f"{checked.name}: {check.__name__}: {error}") from error


def plan_of(*steps: Step, note: str = "", folder: str = "/srv/shop", title: str = "Ports") -> SessionPlan:
    return SessionPlan(
        id="2f7d9c1a-5b64-4c1e-9a40-1d2c3b4a5f60",
        folder=folder,
        title=title,
        steps=steps,
        note=note,
        began=datetime(2026, 11, 17, 12, 0, tzinfo=UTC),
        model="some-model",
    )


def _prompt(text: str) -> Prompt:
    return Prompt((Text(text),))


def _call(number: int, output: str, *, failed: bool = False) -> StoredCall:
    arguments = {"command": f"ls {number}"}
    return StoredCall(id=f"call_{number}", name="bash", arguments=arguments, output=output, failed=failed)


_TALK: Final[tuple[Step, ...]] = (
    _prompt("Which port?"),
    ModelReply("I look.", (_call(1, "port 1"), _call(2, "no such file", failed=True))),
    ModelReply("", (_call(3, ""),)),
    ModelReply("Port 1."),
    _prompt("Thanks."),
    ModelReply("Gladly."),
)


def held_by(checked: SessionFormat, data: bytes) -> tuple[Step, ...]:
    """What a session holds, as steps."""
    conversation = checked.read(data)
    assert conversation is not None, "read() does not recognise what write() wrote"
    assert isinstance(conversation, Conversation), f"read() returned {type(conversation).__name__}"
    return steps_of(repair_conversation(conversation), ToolNames(checked.name, checked.name)).steps


def words_of(steps: Collection[Step]) -> list[Any]:
    """What was said, called and answered. Neighbouring texts of one speaker may be read as one."""
    told: list[Any] = []
    for step in steps:
        calls = step.calls if isinstance(step, ModelReply) else ()
        media = step.media if isinstance(step, Prompt) else ()
        told.append("".join(step.text.split()))
        told += [(call.name, call.arguments, "".join(call.output.split()), call.failed) for call in calls]
        told += [one.data for one in (*media, *(image for call in calls for image in call.media))]
    return [one for one in told if one]


def _expect_kept(checked: SessionFormat, *steps: Step) -> None:
    read = words_of(held_by(checked, checked.write(plan_of(*steps))))
    assert read == words_of(steps), f"expected {words_of(steps)}, read {read}"


def a_conversation_with_calls_is_read_as_it_was_written(
    checked: SessionFormat, without: Collection[str]
) -> None:
    _expect_kept(checked, *(_TALK if "failures" not in without else map(_sound, _TALK)))


def _sound(step: Step) -> Step:
    """Without results that are errors."""
    if isinstance(step, Prompt):
        return step
    return structs.replace(step, calls=tuple(structs.replace(call, failed=False) for call in step.calls))


def images_stay_with_their_prompts(checked: SessionFormat, without: Collection[str]) -> None:
    if "images" not in without:
        _expect_kept(checked, Prompt((Text("Look."), _PIXEL)), ModelReply("A pixel."))


def images_stay_with_their_results(checked: SessionFormat, without: Collection[str]) -> None:
    if not {"images", "images in results"} & {*without}:
        call = structs.replace(_call(1, "a picture"), media=(_PIXEL,))
        _expect_kept(checked, _prompt("Look."), ModelReply("", (call,)), ModelReply("A pixel."))


def unusual_texts_stay(checked: SessionFormat, _: Collection[str]) -> None:
    for text in ("ü 🦦 \u202e", 'quotes " and \\', "a line\u2028here", "{}", "<tag>", "long " * 20_000):
        _expect_kept(checked, _prompt(f"Say {text}"), ModelReply(f"I say {text}", (_call(1, text),)))


def a_conversation_may_begin_with_a_reply_and_end_with_a_prompt(
    checked: SessionFormat, _: Collection[str]
) -> None:
    _expect_kept(checked, _prompt("Hello."), ModelReply("Hello."), _prompt("And now?"))


def the_note_to_the_model_is_kept(checked: SessionFormat, _: Collection[str]) -> None:
    note = "This conversation began elsewhere."
    read = checked.read(checked.write(plan_of(*_TALK, note=note)))
    assert read is not None, "read() does not recognise what write() wrote"
    told = [read.system, *(message.text for message in read.messages)]
    assert any(note in text for text in told), "the note is not in the session"


def the_same_plan_gives_the_same_session(checked: SessionFormat, _: Collection[str]) -> None:
    assert checked.write(plan_of(*_TALK)) == checked.write(plan_of(*_TALK)), "two writes differ"


def the_agents_provider_would_take_it(checked: SessionFormat, _: Collection[str]) -> None:
    read = checked.read(checked.write(plan_of(*_TALK)))
    assert read is not None, "read() does not recognise what write() wrote"
    source = SourceRequest(dialect="", messages=read.messages, conversation=read)
    found = [finding for one in examine(source).diagnoses for finding in one.findings]
    errors = [finding.what for finding in found if finding.level == "error"]
    assert not errors, f"it would be refused: {errors}"


def files_of_others_are_not_taken(checked: SessionFormat, _: Collection[str]) -> None:
    for other, data in _foreign(checked.name):
        try:
            read = checked.read(data)
        except TranscriptError:
            continue
        assert read is None, f"{other} is taken for a session of {checked.title}"


def _foreign(name: str) -> Iterator[tuple[str, bytes]]:
    yield "an empty file", b""
    yield "an empty object", b"{}"
    yield "a list", b"[]"
    yield "a text", b"Dear diary,\nnothing happened.\n"
    yield "bytes", bytes(range(256))
    yield "a request", b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}'
    for other in NAMES:
        if other != name:
            yield f"a session of {other}", session_format(other).write(plan_of(*_TALK))


def damaged_files_raise_nothing_but_a_transcript_error(checked: SessionFormat, _: Collection[str]) -> None:
    whole = checked.write(plan_of(*_TALK))
    step = max(1, len(whole) // _CUTS)
    cuts = [whole[:end] for end in range(0, len(whole), step)]
    holes = [whole[:at] + b"\xff\x00" + whole[at + step :] for at in range(0, len(whole), step)]
    nulls = [whole.replace(b'"', b"null", 1), whole.replace(b"{", b"[", 3)]
    for data in (*cuts, *holes, *nulls):
        try:
            checked.read(data)
        except TranscriptError:
            continue
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} for a damaged file: {error}") from error


def no_session_is_written_outside_its_folder(checked: SessionFormat, _: Collection[str]) -> None:
    home = Path(os.sep, "home", "me", "sessions")
    hostile = ("../../../x", "/etc/passwd", "..", "a\nb", "~", "x" * 200, "C:\\x", "")
    for text in hostile:
        for plan in (
            plan_of(*_TALK, title=text),
            plan_of(*_TALK, folder=text),
            plan_of(*_TALK, folder=f"/{text}"),
        ):
            file = checked.file(plan, home)
            inside = Path(os.path.normpath(file)).is_relative_to(home)
            assert inside, f"{file} is outside of {home}"
            names = file.relative_to(home).parts
            assert ".." not in names, f"{file} leads upwards"
            longest = max(len(os.fsencode(name)) for name in names)
            assert longest <= _LONGEST_NAME, f"a name in {file.name[:40]}… has {longest} bytes"


def each_session_has_a_file_of_its_own_where_it_is_looked_for(
    checked: SessionFormat, _: Collection[str]
) -> None:
    home = Path(os.sep, "home", "me", "sessions")
    plan = plan_of(*_TALK)
    file, other = (
        checked.file(one, home)
        for one in (plan, structs.replace(plan, id="7a3e1f52-0000-4000-8000-00000000aaaa"))
    )
    assert file != other, f"two sessions have the file {file}"
    if checked.pattern:
        matches = file.relative_to(home).match(checked.pattern.replace("**/", ""))
        assert matches, f"{file} does not match {checked.pattern}"
        known = plan.id in file.name or plan.id.encode() in checked.write(plan)
        assert known, "neither the file nor its name holds the id of the session"


CHECKS: Final[tuple[Check, ...]] = (
    a_conversation_with_calls_is_read_as_it_was_written,
    images_stay_with_their_prompts,
    images_stay_with_their_results,
    unusual_texts_stay,
    a_conversation_may_begin_with_a_reply_and_end_with_a_prompt,
    the_note_to_the_model_is_kept,
    the_same_plan_gives_the_same_session,
    the_agents_provider_would_take_it,
    files_of_others_are_not_taken,
    damaged_files_raise_nothing_but_a_transcript_error,
    no_session_is_written_outside_its_folder,
    each_session_has_a_file_of_its_own_where_it_is_looked_for,
)
