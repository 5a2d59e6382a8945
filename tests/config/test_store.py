"""The setting `store`: a database in place of SQLite files, named by the user alone, shown without its password."""

from __future__ import annotations

from pathlib import Path

import pytest

from segue.cli.main import main
from segue.config.layers import load_settings
from segue.config.schema import Config, SessionSettings
from segue.config.session_stores import open_store
from segue.errors import UsageError
from segue.sessions.stores.memory import MemoryStore
from segue.sessions.stores.postgres import PostgresStore

URL = "postgresql://segue:correct-horse@db.example/segue"


def test_a_store_takes_the_place_of_sqlite_only() -> None:
    assert isinstance(open_store(Config(store=URL)), PostgresStore)
    assert isinstance(open_store(Config(store=URL, sessions=SessionSettings(keep="memory"))), MemoryStore)


def test_days_are_refused_where_nothing_would_keep_to_them() -> None:
    with pytest.raises(UsageError, match="PostgreSQL"):
        open_store(Config(sessions=SessionSettings(days=3)))


def test_a_project_cannot_choose_where_conversations_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEGUE_CONFIG", str(tmp_path / "user.toml"))
    (tmp_path / "user.toml").write_text("")
    (tmp_path / "segue.toml").write_text(f'store = "{URL}"\n')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="trusted") as refused:
        load_settings()
    assert "horse" not in str(refused.value)


@pytest.mark.parametrize("url", [URL, "postgresql://db.example/segue?user=segue&password=correct-horse"])
def test_a_store_is_shown_without_its_password(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEGUE_STORE", url)
    assert main(["config", "show"]) == 0
    shown = capsys.readouterr().out
    assert "db.example" in shown
    assert "horse" not in shown


def test_a_store_that_is_no_database_is_refused_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEGUE_STORE", "mysql://segue:correct-horse@db.example/segue")
    with pytest.raises(UsageError) as refused:
        load_settings()
    assert "postgresql://" in str(refused.value)
    assert "horse" not in str(refused.value)
