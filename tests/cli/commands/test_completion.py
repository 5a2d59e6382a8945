"""Completion: the scripts are really sourced, and offer what the parsers know."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from cli.cli_runs import Here
from segue.cli.command_table import COMMANDS
from segue.cli.commands.completion import SHELLS, places


@pytest.fixture
def script(segue: Here, tmp_path: Path) -> Path:
    file = tmp_path / "segue.bash"
    file.write_text(segue("completion", "bash").out)
    return file


def completed(script: Path, *words: str) -> set[str]:
    """What bash offers when the cursor stands at the end of these words."""
    quoted = " ".join(f"'{word}'" for word in ("segue", *words))
    program = (
        f"source {script}; complete -p segue >/dev/null || exit 9; "
        f"COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _segue; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    done = subprocess.run(  # noqa: S603
        ["/bin/bash", "--norc", "-c", program], capture_output=True, text=True, check=True, timeout=10
    )
    assert done.stderr == ""
    return set(done.stdout.split())


def test_bash_completes_commands_actions_flags_and_their_values(script: Path) -> None:
    assert completed(script, "mod") == {"models"}
    assert set(COMMANDS) <= completed(script, "")
    assert completed(script, "models", "") >= {"list", "show", "pull", "rm"}
    assert completed(script, "config", "show", "--o") == {"--origin"}
    assert completed(script, "--approval-mode", "") == {"ask", "auto-edit", "yolo", "plan"}
    assert completed(script, "--output-format", "st") == {"stream-json"}
    assert completed(script, "completion", "") >= set(SHELLS)
    assert "--fallback" in completed(script, "-m", "a/b", "--fa")
    assert "--format" in completed(script, "sessions", "export", "--f")


def test_every_command_has_a_place_and_a_purpose() -> None:
    known = set(places())
    assert set(COMMANDS) <= known
    assert {"sessions export", "models pull", "keys set"} <= known
    assert all(COMMANDS.values())


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_can_read_theirs(segue: Here, shell: str, tmp_path: Path) -> None:
    told = segue("completion", shell)
    assert "sessions" in told.out
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    file = tmp_path / "script"
    file.write_text(told.out)
    subprocess.run([found, "-n", str(file)], check=True, timeout=10)  # noqa: S603
    ask = {
        "fish": f"source {file}; complete -C 'segue ses'; complete -C 'segue --approval-mode '",
        "zsh": f"autoload -U compinit; compinit -u -D; source {file}; print $_comps[segue] sessions auto-edit",
    }
    done = subprocess.run(  # noqa: S603
        [found, "-c", ask[shell]], check=True, timeout=20, capture_output=True, text=True, cwd=tmp_path
    )
    assert "sessions" in done.stdout
    assert "auto-edit" in done.stdout
    assert shell == "fish" or "_segue" in done.stdout


def test_an_unknown_shell_is_wrong_usage(segue: Here) -> None:
    assert segue("completion", "tcsh").code == 2
