from __future__ import annotations

import asyncio
import copy
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.conversation.events import Failed
from segue.conversation.message import Conversation, user
from segue.errors import CredentialsError, UsageError
from segue.providers.adapter import ChatRequest, StreamEvent
from segue.providers.config import ProviderConfig
from segue.providers.credentials.keys import (
    FoundKey,
    Key,
    KeySources,
    Secret,
    find_key,
    read_key_file,
    write_key_file,
)
from segue.providers.factory import connect
from segue.providers.hosts.addresses import addresses, find_address

KEY = "nobody-may-see-me"


def sources(**fields: Any) -> KeySources:
    return KeySources(**{"keyring": False, **fields})


def printing(text: str) -> str:
    return f"{sys.executable} -c \"print('{text}')\""


def test_the_first_source_that_has_a_key_counts(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    write_key_file(file, {"x": "from file"})
    everywhere = {
        "given": Secret("given"),
        "variable": "MINE",
        "command": printing("from command"),
        "variables": ("FIRST", "SECOND"),
        "environ": {"MINE": "from mine", "SECOND": "from second"},
        "file": file,
    }
    found: list[str] = []
    for left_out in ("", "given", "variable", "command", "variables", "file"):
        everywhere.pop(left_out, None)
        key = find_key("x", sources(**everywhere))
        found.append(key.secret.reveal() if key else "none")
    assert found == ["given", "from mine", "from command", "from second", "from file", "none"]


def test_an_empty_variable_holds_no_key_and_quotes_are_no_part_of_one() -> None:
    asked = sources(variables=("A", "B"), environ={"A": "  ", "B": ' "quoted" \n'})
    found = find_key("x", asked)
    assert found is not None
    assert (found.secret.reveal(), found.source) == ("quoted", "the variable B")


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("a-program-that-is-not-there --key", "cannot be run"),
        (f"{sys.executable} -c \"import sys; print('{KEY}'); sys.exit(3)\"", "ended with status 3"),
        (f'{sys.executable} -c ""', "printed nothing"),
        ('unbalanced "', "cannot be run"),
    ],
)
def test_a_command_that_gives_no_key_is_an_error_that_does_not_repeat_what_it_printed(
    command: str, what: str
) -> None:
    with pytest.raises(CredentialsError) as caught:
        find_key("x", sources(command=command))
    assert what in caught.value.message
    assert caught.value.path == "providers.x.key_command"
    assert KEY not in str(caught.value)


def test_the_keyring_is_asked_when_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    keyring = pytest.importorskip("keyring")
    from keyring.backend import KeyringBackend

    class Store(KeyringBackend):
        priority = 1

        def get_password(self, service: str, username: str) -> str | None:
            return KEY if (service, username) == ("segue", "x") else None

        def set_password(self, service: str, username: str, password: str) -> None:
            raise NotImplementedError

        def delete_password(self, service: str, username: str) -> None:
            raise NotImplementedError

    monkeypatch.setattr(keyring.core, "_keyring_backend", Store())  # type: ignore[no-untyped-call]
    found = find_key("x", KeySources())
    assert found == FoundKey(Secret(KEY), "the keyring")
    assert find_key("y", KeySources()) is None


def test_a_keyring_that_fails_has_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert find_key("x", KeySources()) is None


def test_a_key_file_is_private_from_the_start_and_refused_when_it_is_not(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "keys"
    assert read_key_file(file) == {}
    write_key_file(file, {"x": KEY})
    assert read_key_file(file) == {"x": KEY}
    assert [entry.name for entry in file.parent.iterdir()] == ["keys"]
    if os.name == "posix":
        assert file.stat().st_mode & 0o777 == 0o600
        file.chmod(0o640)
        with pytest.raises(UsageError) as caught:
            read_key_file(file)
        assert caught.value.code == "key_file_not_private"
        assert f"chmod 600 {file}" in caught.value.hint


def test_a_key_file_that_cannot_be_read_is_refused_without_repeating_it(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.touch(0o600)
    file.write_text(f'{{"x": "{KEY}"')
    with pytest.raises(UsageError) as caught:
        read_key_file(file)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("name", sorted(addresses().providers))
def test_a_missing_key_names_the_variable_and_the_command(name: str) -> None:
    address = find_address(name)
    assert address is not None
    key = Key(address, sources())
    if not address.needs_key:
        assert key.headers() == {}
        return
    with pytest.raises(CredentialsError) as caught:
        key.headers()
    assert caught.value.remedy == "log_in"
    assert all(variable in caught.value.hint for variable in address.key_env)
    assert f"segue keys set {name}" in caught.value.hint


@pytest.mark.requirement("Scenario: Provider Initialization", "Scenario: Configuration Validation")
@pytest.mark.parametrize("name", sorted(addresses().providers))
def test_a_provider_without_what_it_needs_says_what_that_is(name: str) -> None:
    address = find_address(name)
    assert address is not None
    places = {names[0]: place for place, names in address.places.items()}
    where = {address.base_url_env[0]: "http://here.test", **places}
    problems = connect(name, environ=where, keyring=False).validate_config()
    missing = [f"providers.{name}.api_key"] if address.needs_key else []
    assert [problem.field for problem in problems] == missing
    assert all(problem.message and problem.hint for problem in problems)
    with_key = dict.fromkeys(address.key_env, "k")
    assert connect(name, environ={**where, **with_key}, keyring=False).validate_config() == []


@pytest.mark.requirement("Scenario: Configuration Validation")
def test_the_own_variable_of_a_configuration_is_the_one_that_is_named() -> None:
    provider = connect("openai", ProviderConfig(api_key_env="WORK_KEY"), environ={}, keyring=False)
    (problem,) = provider.validate_config()
    assert "WORK_KEY" in problem.hint
    assert problem.field == "providers.openai.api_key"


@pytest.mark.parametrize(
    ("name", "header", "value"),
    [
        ("openai", "authorization", f"Bearer {KEY}"),
        ("anthropic", "x-api-key", KEY),
        ("gemini", "x-goog-api-key", KEY),
        ("azure-openai", "api-key", KEY),
        ("ollama", "authorization", f"Bearer {KEY}"),
    ],
)
def test_each_provider_is_sent_its_key_in_its_own_header(name: str, header: str, value: str) -> None:
    config = ProviderConfig(base_url="https://host.test")
    provider = connect(name, config, api_key=KEY, environ={}, keyring=False)
    assert provider.endpoint.headers()[header] == value
    assert KEY not in provider.endpoint.url("/x")


def test_a_version_an_organization_and_headers_of_ones_own_go_along() -> None:
    mine = ProviderConfig(organization="org", project="proj", headers={"x-mine": "1"})
    headers = connect("openai", mine, api_key=KEY, environ={}, keyring=False).endpoint.headers()
    assert (headers["openai-organization"], headers["openai-project"], headers["x-mine"]) == (
        "org",
        "proj",
        "1",
    )
    headers = connect("anthropic", api_key=KEY, environ={}, keyring=False).endpoint.headers()
    assert headers["anthropic-version"] == "2023-06-01"


@pytest.mark.parametrize("key", ["two\nlines-of-key", "“quoted-key”"])
def test_a_key_that_cannot_be_one_is_told_without_showing_it(key: str) -> None:
    provider = connect("openai", api_key=key, environ={}, keyring=False)
    with pytest.raises(CredentialsError) as caught:
        provider.endpoint.headers()
    assert caught.value.code == "bad_key"
    assert "key”" not in str(caught.value)
    assert "lines-of-key" not in str(caught.value)
    assert len(provider.validate_config()) == 1


def test_a_command_is_asked_outside_of_the_loop_and_not_twice_when_it_fails(tmp_path: Path) -> None:
    counted = tmp_path / "count"
    script = f"open({str(counted)!r}, 'a').write('x'); raise SystemExit(1)"
    config = ProviderConfig(key_command=f'{sys.executable} -c "{script}"')
    provider = connect("openai", config, environ={}, keyring=False)
    request = ChatRequest(model="gpt-4.1", conversation=Conversation().append(user("Hi.")))

    async def main() -> list[StreamEvent]:
        return [event async for event in provider.chat_stream(request)]

    (failed,) = asyncio.run(main())
    assert isinstance(failed, Failed)
    assert failed.error.code == "key_command_failed"
    assert counted.read_text() == "x"


def test_a_refused_key_is_looked_for_again(tmp_path: Path) -> None:
    address = find_address("openai")
    assert address is not None
    environ = {"OPENAI_API_KEY": "old"}
    key = Key(address, sources(variables=address.key_env, environ=environ))
    assert not key.known
    assert key.headers() == {"authorization": "Bearer old"}
    environ["OPENAI_API_KEY"] = "new"
    assert key.headers() == {"authorization": "Bearer old"}
    key.forget()
    assert key.headers() == {"authorization": "Bearer new"}


def test_a_secret_shows_itself_to_nobody() -> None:
    secret = Secret(KEY)
    config = ProviderConfig(api_key=secret, headers={"x-token": KEY}, key_command=f"echo {KEY}")
    held = [secret, config, sources(given=secret, environ={"A": KEY}), FoundKey(secret, "given"), [secret]]
    for value in held:
        assert KEY not in repr(value)
        assert KEY not in str(value)
        assert KEY not in f"{value}"
    for write in (pickle.dumps, copy.deepcopy, msgspec.json.encode, msgspec.to_builtins):
        with pytest.raises(TypeError):
            write(secret)
    assert secret == Secret(KEY) != Secret("other")
    assert len({secret, Secret(KEY)}) == 1
    address = find_address("openai")
    assert address is not None
    assert Key(address, sources(given=secret)).headers() == {"authorization": f"Bearer {KEY}"}
