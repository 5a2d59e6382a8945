"""What can be set. These types are the configuration: its checks and its JSON Schema are made of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias, final

from msgspec import Meta, Struct, field

from segue.limits import COMPACT_AT, MAX_EXCHANGES
from segue.routing.retry import RetrySettings

PolicyName: TypeAlias = Literal["single", "round_robin", "failover", "weighted", "least_latency"]
ApprovalMode: TypeAlias = Literal["ask", "auto-edit", "yolo", "plan"]
StoreKind: TypeAlias = Literal["sqlite", "jsonl", "memory"]
Seconds: TypeAlias = Annotated[float, Meta(gt=0)]
Count: TypeAlias = Annotated[int, Meta(ge=1)]
Share: TypeAlias = Annotated[float, Meta(gt=0, le=1)]


@final
class ProfileSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Several models under one name, and who of them answers."""

    members: Annotated[list[str], Meta(min_length=1)]
    """provider/model each, or an alias."""
    policy: PolicyName = "failover"
    weights: dict[str, Annotated[float, Meta(ge=0)]] = {}
    """For `weighted`, by member; one that is not named weighs 1."""
    context_limit: Count | None = None
    """Tokens that fit; without it the smallest window among the members."""
    retry: RetrySettings = RetrySettings()


@final
class ApprovalSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which tool calls are asked about."""

    mode: ApprovalMode = "ask"
    allow: list[str] = []
    """Tools that are never asked about."""
    deny: list[str] = []
    """Tools that never run."""


@final
class ToolSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What models may call."""

    enabled: list[str] = []
    """Names of built-in tools, or file.py:function."""
    timeout: Seconds = 120.0
    """Seconds one call may take."""
    workspace: str = ""
    """The directory that file tools are confined to; the current one if empty."""


@final
class McpServerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One server of the Model Context Protocol, as `.mcp.json` files write it."""

    command: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str = ""
    type: Literal["stdio", "http", "sse"] | None = None
    url: str = ""
    headers: dict[str, str] = {}
    disabled: bool = False


@final
class McpSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Servers whose tools models may call."""

    servers: dict[str, McpServerSettings] = {}
    project_file: bool = True
    """Read `.mcp.json` of a project that is trusted."""
    timeout: Seconds = 60.0


@final
class SessionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How conversations are kept."""

    keep: StoreKind = "sqlite"
    directory: str = ""
    """Where; the data directory of the user if empty."""


@final
class UiSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the terminal shows."""

    markdown: bool = True
    reasoning: bool = True
    status: bool = True
    """One line after each turn: model, tokens, cost, repairs."""
    instructions: list[str] = field(default_factory=lambda: ["AGENTS.md"])
    """Files of a project that are read into the system prompt."""


@final
class LimitSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a turn is stopped."""

    max_turns: Count = MAX_EXCHANGES
    """Exchanges with the model within one turn."""
    max_cost: Annotated[float, Meta(gt=0)] | None = None
    """Dollars: an answer that comes to more is stopped."""
    timeout: Seconds | None = None
    """Seconds, for a turn."""
    compact_at: Share = COMPACT_AT
    """Share of the context window at which the conversation is made shorter."""


@final
class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings."""

    model: str = ""
    """provider/model, an alias, or the name of a profile."""
    system: str = ""
    """The system prompt."""
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    providers: dict[str, dict[str, Any]] = {}
    """By name. The keys of each are those of `ProviderConfig`."""
    profiles: dict[str, ProfileSettings] = {}
    aliases: dict[str, str] = {}
    approval: ApprovalSettings = ApprovalSettings()
    tools: ToolSettings = ToolSettings()
    mcp: McpSettings = McpSettings()
    sessions: SessionSettings = SessionSettings()
    limits: LimitSettings = LimitSettings()
    ui: UiSettings = UiSettings()
