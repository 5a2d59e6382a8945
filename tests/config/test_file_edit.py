"""`segue config set` changes one setting; comments and the rest of the file stay."""

from __future__ import annotations

import tomllib

import pytest

from cli.cli_runs import Here, Home
from segue.cli.exit_codes import Exit
from segue.config.file_edit import with_setting
from segue.errors import UsageError

FILE = """# my settings
model = "a/b"     # the good one

[ui]
markdown = true

[aliases]
fast = [
  "x",
]
"c.d" = 1
"""


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("model",), "c/d"),
        (("system",), 'Say "hi"\\n'),
        (("ui", "markdown"), False),
        (("ui", "status"), False),
        (("aliases", "fast"), "y"),
        (("aliases", "c.d"), 2),
        (("limits", "max_turns"), 3),
        (("options", "openai/gpt-4.1", "temperature"), 0.5),
        (("tools", "enabled"), ["a", "b"]),
    ],
)
def test_one_setting_changes_and_everything_else_stays(path: tuple[str, ...], value: object) -> None:
    before, after = tomllib.loads(FILE), tomllib.loads(with_setting(FILE, path, value))
    inner: dict[str, object] = before
    for word in path[:-1]:
        inner = inner.setdefault(word, {})  # type: ignore[assignment]
    inner[path[-1]] = value
    assert after == before
    assert with_setting(FILE, path, value).startswith("# my settings\n")
    assert with_setting("", path, value)


def test_what_is_written_in_another_form_is_not_torn() -> None:
    with pytest.raises(UsageError, match="segue config path"):
        with_setting("ui = { markdown = true }\n", ("ui", "status"), value=False)


def test_a_setting_is_written_into_the_users_file_and_a_wrong_one_is_not(segue: Here, home: Home) -> None:
    assert segue("config", "set", "ui.markdown", "false").code == Exit.OK
    assert segue("config", "set", 'options."openai/gpt-4.1".temperature', "0").code == Exit.OK
    kept = home.config_file.read_text()
    assert tomllib.loads(kept) == {
        "ui": {"markdown": False},
        "options": {"openai/gpt-4.1": {"temperature": 0}},
    }
    for key, value in (("ui.markdwon", "false"), ("ui.markdown", "perhaps")):
        assert segue("config", "set", key, value).code == Exit.CONFIG
    assert home.config_file.read_text() == kept
