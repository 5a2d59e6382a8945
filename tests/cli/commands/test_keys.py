"""Keys: stored privately, never shown, found again."""

from __future__ import annotations

import json
import stat

import pytest

from cli.cli_runs import Cloud, Here, Home
from segue.cli.exit_codes import Exit

KEY = "sk-proj-0123456789abcdef"
ANTHROPIC = "sk-ant-0123456789abcdef"
PLAIN = "0123456789abcdef0123456789abcdef"


def test_a_key_from_stdin_is_stored_where_only_the_user_can_read_it(segue: Here, home: Home) -> None:
    told = segue("keys", "set", "claude", stdin=ANTHROPIC + "\n")
    assert told.code == Exit.OK
    assert "anthropic" in told.err, "stored under the provider's own name"
    assert "no keyring is available" in told.err
    assert ANTHROPIC not in told.err + told.out
    file = home.path / "data" / "segue" / "keys.json"
    assert json.loads(file.read_text()) == {"anthropic": ANTHROPIC}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) & 0o022 == 0


def test_keys_are_listed_masked_with_their_source(segue: Here, home: Home) -> None:
    segue("keys", "set", "anthropic", stdin=ANTHROPIC)
    told = home.run("keys", "list", OPENAI_API_KEY="sk-other-0123456789")
    assert ANTHROPIC not in told.out
    assert "anthropic" in told.out
    assert "…cdef" in told.out
    assert "the variable OPENAI_API_KEY" in told.out
    rows = json.loads(home.run("keys", "list", "--json").out)
    assert rows == [{"provider": "anthropic", "key": "…cdef", "source": "the file keys.json"}]


def test_a_removed_key_is_gone(segue: Here) -> None:
    segue("keys", "set", "mistral", stdin=PLAIN)
    assert segue("keys", "rm", "mistral").code == Exit.OK
    told = segue("keys", "list")
    assert told.out == ""
    assert "No key is stored" in told.err
    assert segue("keys", "rm", "mistral").code == Exit.USAGE


def test_nothing_and_nonsense_are_no_keys(segue: Here) -> None:
    assert segue("keys", "set", "openai", stdin="").code == Exit.USAGE
    assert segue("keys", "set", "openai", stdin="two words\n").code == Exit.USAGE
    assert segue("keys", "list").out == ""


@pytest.mark.parametrize(
    ("provider", "key", "why"),
    [
        ("anthropic", KEY, "A key of Anthropic begins with sk-ant-."),
        ("anthropic", "gsk_0123456789abcdef", "This one looks like a key of Groq."),
        ("mistral", ANTHROPIC, "It looks like a key of Anthropic."),
        ("mistral", "/doctor", "It has 7 characters"),
        ("openai", "sk-pröj-0123456789abcdef", "letters that no key has"),
    ],
)
def test_a_key_of_another_shape_is_stored_only_by_force(
    segue: Here, home: Home, provider: str, key: str, why: str
) -> None:
    told = segue("keys", "set", provider, stdin=key)
    assert told.code == Exit.USAGE
    assert why in told.err
    assert "nothing was stored" in told.err
    assert key not in told.err
    assert segue("keys", "list").out == ""
    forced = segue("keys", "set", provider, "--force", stdin=key)
    assert (forced.code == Exit.OK) is key.isascii()


def test_a_key_is_tried_before_it_is_stored_if_wanted(cloud: Cloud, asked: Here) -> None:
    asked.forget("ANTHROPIC_API_KEY")
    assert asked("keys", "set", "anthropic", "--try", stdin=ANTHROPIC).code == Exit.OK
    assert cloud.emulator.log[-1].path.endswith("/models")
    cloud.fail(status=401)
    told = asked("keys", "set", "anthropic", "--try", stdin=ANTHROPIC + "2")
    assert told.code == Exit.USAGE
    assert "did not accept the key; nothing was stored" in told.err
    assert "…cdef" in asked("keys", "list").out


def test_a_misspelt_provider_gets_no_key_and_one_of_ones_own_does(segue: Here, home: Home) -> None:
    told = segue("keys", "set", "opanai", stdin=KEY)
    assert told.code == Exit.USAGE
    assert 'Did you mean "openai"?' in told.err
    assert segue("keys", "set", "zz-own-server", stdin=KEY).code == Exit.USAGE
    home.configure(
        '[providers.zz-own-server]\nbase_url = "http://127.0.0.1:9/v1"\ndialect = "openai_compatible"\n'
    )
    assert segue("keys", "set", "zz-own-server", stdin=KEY).code == Exit.OK


def test_a_keyring_is_used_where_there_is_one(home: Home) -> None:
    (home.project / "ring.py").write_text(
        "import json, pathlib\n"
        "from keyring.backend import KeyringBackend\n"
        "FILE = pathlib.Path('ring.json')\n"
        "class Ring(KeyringBackend):\n"
        "    priority = 1\n"
        "    def _all(self): return json.loads(FILE.read_text()) if FILE.exists() else {}\n"
        "    def get_password(self, service, name): return self._all().get(f'{service}/{name}')\n"
        "    def set_password(self, service, name, key): FILE.write_text(json.dumps({**self._all(), f'{service}/{name}': key}))\n"
        "    def delete_password(self, service, name): FILE.write_text('{}')\n"
    )
    ring = {"PYTHON_KEYRING_BACKEND": "ring.Ring", "PYTHONPATH": str(home.project)}
    told = home.run("keys", "set", "openai", stdin=KEY, **ring)
    assert told.code == Exit.OK
    assert "the keyring of the operating system" in told.err
    assert not (home.path / "data" / "segue" / "keys.json").exists()
    assert "the keyring" in home.run("keys", "list", **ring).out
    assert home.run("keys", "rm", "openai", **ring).code == Exit.OK
    assert home.run("keys", "list", **ring).out == ""
