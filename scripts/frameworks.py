"""The integrations with the newest versions of their frameworks: `python -m scripts.frameworks [pytest's words]`.

Everything is installed in an environment of its own, in the folder of the clients. The tests are those of tests/integrations and of the
gateway in a program; the types of the integrations are checked against those of the frameworks.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from scripts.clients.__main__ import CACHE
from scripts.clients.fetch import newest_npm

ROOT = Path(__file__).parent.parent
PACKAGES = (
    "pydantic-ai-slim[openai]",
    "langchain-openai",
    "langchain-tests",
    "langgraph",
    "langgraph-checkpoint-sqlite",
    "openai-agents",
    "llm",
    "anthropic",
    "google-genai",
    "httpx",
    "httpx2",
    "starlette",
)
TOOLS = ("hypothesis", "mypy", "pytest", "pytest-asyncio", "pytest-timeout")
MODULES = ("langchain", "llm", "openai_agents", "pydantic_ai")
_SECONDS = 900.0


def main(words: list[str]) -> int:
    folder = CACHE / "python" / "frameworks"
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    install = [sys.executable, "-m", "uv", "pip", "install", "-q", "--upgrade", "--python", str(python)]
    subprocess.run(
        [*install, "-e", f"{ROOT}[aws,dbos,postgres,restate]", *PACKAGES, *TOOLS],
        check=True,
        timeout=_SECONDS,
    )
    names = "|".join(package.partition("[")[0] for package in PACKAGES)
    listed = subprocess.run(
        [sys.executable, "-m", "uv", "pip", "list", "--python", str(python), "--format", "freeze"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    print(*[line for line in listed.splitlines() if line.partition("==")[0] in names.split("|")])
    modules = newest_npm(CACHE, "ai")
    sources = [f"src/segue/integrations/{name}.py" for name in MODULES]
    typed = subprocess.run([str(python), "-m", "mypy", *sources], cwd=ROOT, check=False).returncode
    options = [
        "-o",
        "asyncio_mode=auto",
        "-o",
        "asyncio_default_fixture_loop_scope=function",
        "-W",
        "default",
    ]
    tested = subprocess.run(
        [str(python), "-m", "pytest", "-q", "--disable-warnings", *options, *(words or TESTS)],
        cwd=ROOT,
        env={**os.environ, "SEGUE_NODE_MODULES": str(modules)},
        check=False,
    ).returncode
    return typed or tested


TESTS = [
    "tests/integrations",
    "tests/gateway/test_in_process.py",
    "tests/gateway/test_in_process_state.py",
]

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
