"""Rules are data; a few questions can be asked of them."""

from __future__ import annotations

import pytest

from segue.conversation.blocks import Media, Origin
from segue.conversation.tools import ToolSpec
from segue.transcript.rules import MediaRules, Rules, accepts_media, media_type
from strategies.targets import TARGETS

RULES = MediaRules(user=frozenset({"image/png", "audio/*", "application/pdf"}), urls=frozenset({"image"}))


@pytest.mark.parametrize(
    ("media", "accepted"),
    [
        (Media("image", "image/png", "eA=="), True),
        (Media("image", "", "eA=="), True),
        (Media("image", "image/webp", "eA=="), False),
        (Media("audio", "audio/ogg", "eA=="), True),
        (Media("image", "image/png", url="https://a.invalid"), True),
        (Media("document", "application/pdf", url="https://a.invalid"), False),
        (Media("document", "image/png", url="https://a.invalid"), True),
        (Media("audio", "audio/ogg", url="https://a.invalid"), False),
        (Media("image", url="https://a.invalid/cat.PNG?size=9"), True),
        (Media("image", url="https://a.invalid/cat.jpg"), False),
        (Media("image", "image/png", url="file-id:abc"), False),
        (Media("image", "image/png"), False),
        (Media("image", "image/png", "é"), False),
        (Media("image", "image/png", "eA==", name="\ud800"), False),
    ],
)
def test_media_is_accepted_by_type_and_by_how_it_is_given(media: Media, accepted: bool) -> None:
    assert accepts_media(RULES.user, RULES, media) == accepted
    assert not accepts_media(frozenset(), RULES, media)


def test_a_document_that_the_provider_holds_is_accepted_on_its_own_wire_only() -> None:
    held = Media("document", url="file-id:abc")
    taking = [name for name, rules in TARGETS.items() if accepts_media(rules.media.user, rules.media, held)]
    assert taking == ["openai_chat"]


def test_media_without_a_type_has_the_usual_one() -> None:
    assert [media_type(Media(kind)) for kind in ("image", "document", "audio")] == [
        "image/png",
        "application/pdf",
        "audio/wav",
    ]
    assert media_type(Media("image", url="https://a.invalid/cat.jpg#top")) == "image/jpeg"
    assert media_type(Media("document", url="https://a.invalid/cat.jpg")) == "application/pdf"


def test_rules_move_to_an_address_and_keep_their_dialect() -> None:
    moved = Rules(target=Origin("openai_chat")).at(provider="p", endpoint="e", model="m")
    assert moved.target == Origin("openai_chat", "p", "e", "m")


@pytest.mark.requirement("REQ-915-036")
@pytest.mark.parametrize("name", TARGETS)
def test_every_target_is_described_by_values_alone(name: str) -> None:
    rules = TARGETS[name]
    assert rules.target.dialect == name
    assert hash(rules.ids) == hash(TARGETS[name].ids)
    assert rules == TARGETS[name]


@pytest.mark.parametrize(
    ("ending", "found"),
    [
        ("bmp", "image/bmp"),
        ("gif", "image/gif"),
        ("heic", "image/heic"),
        ("heif", "image/heif"),
        ("jpeg", "image/jpeg"),
        ("jpg", "image/jpeg"),
        ("svg", "image/svg+xml"),
        ("tif", "image/tiff"),
        ("tiff", "image/tiff"),
        ("webp", "image/webp"),
        ("pdf", "image/png"),
        ("xyz", "image/png"),
    ],
)
def test_the_end_of_an_address_says_the_type_of_an_image(ending: str, found: str) -> None:
    assert media_type(Media("image", url=f"https://a.invalid/cat.{ending}#top")) == found


def test_a_target_about_which_nothing_is_said_demands_nothing() -> None:
    rules = Rules()
    assert ToolSpec("read").kind == "function"
    assert rules.media.urls_in_results
    assert rules.media.in_errors
    assert rules.ends_with_model
    assert (rules.calls_per_step, rules.argument_levels, rules.system) == (0, 0, "apart")
