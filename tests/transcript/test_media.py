"""Media where a target can see it, words where it cannot."""

from __future__ import annotations

import pytest

from laws.legality import complaints
from segue.conversation.blocks import Code, Media, Text, ToolCall, ToolResult
from segue.conversation.message import model, tool, user
from segue.transcript.blocks.media import caption, describe, sort_media, written_out
from segue.transcript.rules import MediaRules, Rules
from segue.transcript.steps import ModelStep, Transcript, UserStep
from strategies.targets import TARGETS
from transcript.readers import calls_of, every_target, kinds_of, said

requirement = pytest.mark.requirement
IMAGE = Media("image", "image/png", "aGVsbG8=", name="cat.png")
SOUND = Media("audio", "audio/ogg", "aGVsbG8=")
LINK = Media("document", url="https://example.invalid/a.pdf")


@pytest.mark.parametrize(
    ("media", "text"),
    [
        (IMAGE, '[image "cat.png", image/png, 6 bytes: not shown, this model cannot see it here]'),
        (
            LINK,
            "[document, application/pdf, at https://example.invalid/a.pdf: not shown, this model cannot see it here]",
        ),
        (Media("audio"), "[audio, audio/wav, empty: not shown, this model cannot see it here]"),
        (
            Media("image", name="\ud800"),
            '[image "\ufffd", image/png, empty: not shown, this model cannot see it here]',
        ),
    ],
)
def test_what_cannot_be_shown_is_told(media: Media, text: str) -> None:
    assert describe(media) == Text(text)


def test_code_is_written_out_in_a_fence_it_does_not_close() -> None:
    assert written_out(Code("print(1)", "python")) == Text("```python\nprint(1)\n```")
    assert written_out(Code("a ```` b")) == Text("`````\na ```` b\n`````")


def test_a_caption_names_tool_and_call() -> None:
    assert caption(IMAGE, "look", "call_1") == Text("[image returned by look, call call_1]")


def test_media_of_a_result_stays_moves_or_is_lost() -> None:
    rules = MediaRules(user=frozenset({"image/*"}), tool=frozenset({"audio/ogg"}), in_errors=False)
    assert sort_media((IMAGE, SOUND, LINK), rules, failed=False) == ([SOUND], [IMAGE], [LINK])
    assert sort_media((SOUND,), rules, failed=True) == ([], [], [SOUND])


def shown(*media: Media, rules: Rules, output: str | None = None, error: str | None = None) -> Transcript:
    return said(
        user("a"),
        model(ToolCall("c0", "look")),
        tool(ToolResult("c0", "look", output, error, media=media)),
        rules=rules,
    )


@requirement("REQ-915-008")
@every_target
@pytest.mark.parametrize("output", [None, "", " ", "words"])
@pytest.mark.parametrize("error", [None, "", " ", "failed"])
def test_a_result_with_media_is_legal_everywhere(rules: Rules, output: str | None, error: str | None) -> None:
    for media in ((IMAGE,), (SOUND,), (LINK,), (IMAGE, SOUND, LINK)):
        transcript = shown(*media, rules=rules, output=output, error=error)
        assert list(complaints(transcript, rules)) == []
        assert (output or "") in calls_of(transcript)[0].completion.text


def test_an_image_a_tool_may_show_stays_in_its_result() -> None:
    (call,) = calls_of(shown(IMAGE, rules=TARGETS["anthropic"]))
    assert call.completion.media == (IMAGE,)


def test_an_image_only_the_user_may_show_follows_the_batch() -> None:
    transcript = shown(IMAGE, rules=TARGETS["openai_chat"], output="here it is")
    assert calls_of(transcript)[0].completion.text == "here it is"
    assert transcript.steps[-1] == UserStep((Text("[image returned by look, call call_c0]"), IMAGE))
    assert kinds_of(transcript) == ["media_moved"]


def test_a_sound_nobody_may_show_is_described_in_the_result() -> None:
    transcript = shown(SOUND, rules=TARGETS["openai_chat"], output="words")
    assert calls_of(transcript)[0].completion.text.startswith("words\n[audio, audio/ogg")
    assert kinds_of(transcript) == ["media_described"]


def test_an_image_by_address_is_shown_where_it_can_be_and_its_address_is_told_elsewhere() -> None:
    picture = Media("image", url="https://example.invalid/cat.png")
    for name in ("gemini", "anthropic", "openai_chat", "openai_responses", "mistral"):
        assert said(user(picture), rules=TARGETS[name]).steps == (UserStep((picture,)),)
    for name in ("ollama", "deepseek"):
        (step,) = said(user(picture), rules=TARGETS[name]).steps
        assert picture.url in repr(step)
        assert picture not in step.blocks
    http = Media("image", url="http://example.invalid/cat.png")
    assert kinds_of(said(user(http), rules=TARGETS["gemini"])) == ["media_described"]


def test_an_image_by_address_leaves_a_result_where_only_the_user_may_show_one() -> None:
    picture = Media("image", url="https://example.invalid/cat.png")
    transcript = shown(picture, rules=TARGETS["gemini"])
    assert calls_of(transcript)[0].completion.media == ()
    assert picture in transcript.steps[-1].blocks


def test_media_and_code_of_user_and_model_are_shown_or_told() -> None:
    transcript = said(
        user(IMAGE, Code("1")), model(IMAGE, Code("2", "python")), user("b"), rules=TARGETS["openai_chat"]
    )
    assert transcript.steps[0] == UserStep((IMAGE, Text("```\n1\n```")))
    assert transcript.steps[1] == ModelStep((describe(IMAGE), Text("```python\n2\n```")))
    gemini = said(user("a"), model(IMAGE), user("b"), rules=TARGETS["gemini"])
    assert gemini.steps[1] == ModelStep((IMAGE,))


def test_in_results_that_may_show_no_address_content_stays_and_addresses_move() -> None:
    rules = MediaRules(
        user=frozenset({"image/*"}),
        tool=frozenset({"image/*"}),
        urls=frozenset({"image"}),
        urls_in_results=False,
    )
    linked = Media("image", url="https://example.invalid/a.png")
    assert sort_media((IMAGE, linked), rules, failed=False) == ([IMAGE], [linked], [])


def test_media_of_a_result_is_shown_whichever_alphabet_of_base64_it_came_in() -> None:
    rules = TARGETS["anthropic"].media
    stay, move, lost = sort_media([Media("image", "image/png", "-__-aGk")], rules, failed=False)
    assert (stay, move, lost) == ([Media("image", "image/png", "+//+aGk=")], [], [])
