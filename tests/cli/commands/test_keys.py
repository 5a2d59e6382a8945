"""Keys: stored privately, never shown, found again."""

from __future__ import annotations

import json
import stat

from cli.cli_runs import Here, Home
from segue.cli.exit_codes import Exit

KEY = "sk-proj-0123456789abcdef"


def test_a_key_from_stdin_is_stored_where_only_the_user_can_read_it(segue: Here, home: Home) -> None:
    told = segue("keys", "set", "claude", stdin=KEY + "\n")
    assert told.code == Exit.OK
    assert "anthropic" in told.err, "stored under the provider's own name"
    assert "no keyring is available" in told.err
    assert KEY not in told.err + told.out
    file = home.path / "data" / "segue" / "keys.json"
    assert json.loads(file.read_text()) == {"anthropic": KEY}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) & 0o022 == 0


def test_keys_are_listed_masked_with_their_source(segue: Here, home: Home) -> None:
    segue("keys", "set", "anthropic", stdin=KEY)
    told = home.run("keys", "list", OPENAI_API_KEY="sk-other-0123456789")
    assert KEY not in told.out
    assert "anthropic" in told.out
    assert "…cdef" in told.out
    assert "the variable OPENAI_API_KEY" in told.out
    rows = json.loads(home.run("keys", "list", "--json").out)
    assert rows == [{"provider": "anthropic", "key": "…cdef", "source": "the file keys.json"}]


def test_a_removed_key_is_gone(segue: Here) -> None:
    segue("keys", "set", "mistral", stdin=KEY)
    assert segue("keys", "rm", "mistral").code == Exit.OK
    told = segue("keys", "list")
    assert told.out == ""
    assert "No key is stored" in told.err
    assert segue("keys", "rm", "mistral").code == Exit.USAGE


def test_nothing_and_nonsense_are_no_keys(segue: Here) -> None:
    assert segue("keys", "set", "openai", stdin="").code == Exit.USAGE
    assert segue("keys", "set", "openai", stdin="two words\n").code == Exit.USAGE
    assert segue("keys", "list").out == ""


def test_a_misspelt_provider_gets_no_key_and_one_of_ones_own_does(segue: Here) -> None:
    told = segue("keys", "set", "opanai", stdin=KEY)
    assert told.code == Exit.USAGE
    assert 'Did you mean "openai"?' in told.err
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
