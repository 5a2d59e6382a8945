"""Plugins: installed packages that add providers, tools, templates and commands; a broken one costs only itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cli.cli_runs import Cloud, Here, Home
from segue.cli.exit_codes import Exit
from segue.plugins import contributions
from segue.providers.registry import default_registry

MODULE = """
from segue import Origin, ProviderAdapter
from segue.providers import Finished, RequestSent, TextDelta

class Echo(ProviderAdapter):
    name = "echo"
    async def chat_stream(self, request):
        yield RequestSent(origin=Origin("echo", self.name, "", request.model))
        yield TextDelta(0, "echo: " + request.conversation.messages[-1].text)
        yield Finished("stop")

def forecast(city: str) -> str:
    "The weather of tomorrow."
    return f"rain in {city}"

BRIEF = {"description": "Brief answers", "prompt": "Briefly: $input"}

class Weather:
    DESCRIPTION = "Show the weather."

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("city")

    @staticmethod
    def run(arguments):
        if arguments.city == "Atlantis":
            raise RuntimeError("under water")
        print(f"rain in {arguments.city}")
        return 0
"""
ENTRIES = """[console_scripts]
other = other:main

[segue.providers]
echo = segue_weather:Echo

[segue.tools]
forecast = segue_weather:forecast

[segue.templates]
brief = segue_weather:BRIEF

[segue.commands]
weather = segue_weather:Weather
"""
BROKEN = """[segue.providers]
gone = segue_broken.missing:Provider
openai = segue_broken:Other
[segue.tools]
run_shell = segue_broken:tool
strange = segue_broken:NUMBER
[segue.templates]
wrong = segue_broken:WRONG
[segue.commands]
models = segue_broken:command
quits = segue_broken_quits:command
"""


def install(folder: Path, name: str, version: str, entries: str, modules: dict[str, str]) -> None:
    """As pip does: the modules, and a folder that describes the package."""
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text)
    about = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nName: no\n")
    (about / "entry_points.txt").write_text(entries)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages."""
    folder = tmp_path / "site"
    folder.mkdir()
    install(folder, "segue-weather", "1.2", ENTRIES, {"segue_weather": MODULE})
    broken = {
        "segue_broken": "NUMBER = 3\nWRONG = {'promt': 'x'}\n",
        "segue_broken_quits": "raise SystemExit(9)",
    }
    install(folder, "segue-broken", "0.1", BROKEN, broken)
    monkeypatch.syspath_prepend(folder)
    for module in ("segue_weather", "segue_broken", "segue_broken_quits"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    return folder


def test_what_a_package_adds_is_listed_with_its_version_and_what_is_wrong(segue: Here, site: Path) -> None:
    del site
    told = segue("plugins")
    assert told.code == Exit.OK
    assert (
        "segue-weather 1.2\n  command   weather\n  provider  echo\n  template  brief\n  tool      forecast\n"
        in told.out
    )
    lines = [line.strip() for line in told.out.partition("segue-broken 0.1\n")[2].splitlines()[:7]]
    assert lines[0] == 'command   models  not used: segue has a command "models" of its own.'
    assert "cannot be loaded: SystemExit: 9" in lines[1]
    assert "cannot be loaded: ModuleNotFoundError" in lines[2]
    assert lines[3] == 'provider  openai  not used: segue has a provider "openai" of its own.'
    assert "no field" in lines[4] or "unknown field `promt`" in lines[4]
    assert 'segue has a tool "run_shell" of its own' in lines[5]
    assert "cannot be used as a tool" in lines[6]
    rows = json.loads(segue("plugins", "--json").out)
    assert {"package", "version", "kind", "name", "value", "problem"} == set(rows[0])
    assert [row["name"] for row in rows if not row["problem"]] == ["weather", "echo", "brief", "forecast"]


def test_a_command_of_a_package_runs_and_its_failures_bear_its_name(segue: Here, site: Path) -> None:
    del site
    assert segue("weather", "Oslo").out == "rain in Oslo\n"
    assert "Show the weather." in segue("weather", "--help").out
    assert segue("weather").code == Exit.USAGE
    failed = segue("weather", "Atlantis")
    assert failed.code != Exit.OK
    assert (
        'The command "weather" of the package segue-weather 1.2 failed: RuntimeError: under water'
        in failed.err
    )
    assert "pip uninstall segue-weather" in failed.err
    assert "segue-broken 0.1 cannot be loaded" in segue("quits").err
    assert "list, show, download" in segue("help", "models").out or segue("models", "--help").code == Exit.OK


def test_a_provider_and_a_template_of_a_package_answer(segue: Here, site: Path) -> None:
    del site
    assert segue("-m", "echo/any", "-t", "brief", "what is it?").out == "echo: Briefly: what is it?\n"
    assert "brief  Brief answers" in segue("templates").out
    gone = segue("-m", "gone/any", "hello")
    assert 'The provider "gone" of the package segue-broken 0.1 cannot be loaded' in gone.err


def test_a_tool_of_a_package_is_offered_when_it_is_named_and_asks(
    cloud: Cloud, asked: Here, site: Path
) -> None:
    del site
    from segue.emulators.model.model_reply import Call

    cloud.reply(Call("forecast", {"city": "Oslo"}))
    told = asked("weather?", "-T", "forecast", "-T", "read_file", "-m", "anthropic/claude-sonnet-4-6")
    assert told.code == Exit.OK, told.err
    assert [tool["name"] for tool in cloud.bodies()[0]["tools"]] == ["forecast", "read_file"]
    assert "needs the approval of the user" in json.dumps(cloud.bodies()[-1])
    assert "Did you mean" in asked("x", "-T", "forcast").err


def test_nothing_of_a_plugin_is_loaded_before_it_is_used(cloud: Cloud, asked: Here, site: Path) -> None:
    del site
    default_registry()
    assert asked("hello there").code == Exit.OK
    assert asked("hello").code == Exit.OK
    assert contributions("tool")
    assert "segue_weather" not in sys.modules
    assert "segue_broken" not in sys.modules


def test_what_lies_in_the_current_folder_is_no_plugin(home: Home) -> None:
    entries = "[segue.commands]\nevil = evil:command\n[segue.providers]\nevil = evil:command\n"
    install(home.project, "evil", "1", entries, {"evil": "from pathlib import Path\nPath('ran').touch()\n"})
    listed = subprocess.run(
        [sys.executable, "-m", "segue", "plugins", "--json"],
        capture_output=True,
        check=True,
        cwd=home.project,
        env=home.full(),
    )
    assert json.loads(listed.stdout) == []
    assert not (home.project / "ran").exists()
