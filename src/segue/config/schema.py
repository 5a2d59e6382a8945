"""What can be set. These types are the configuration: its checks and its JSON Schema are made of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias, final

from msgspec import Meta, Struct, field, structs

from segue.conversation.options import Effort, Options
from segue.limits import COMPACT_AT, MAX_EXCHANGES
from segue.providers.models.prices import DollarsPerMillion, PriceRule
from segue.routing.breaker import BreakerSettings
from segue.routing.retry import RetrySettings

PolicyName: TypeAlias = Literal["single", "round_robin", "failover", "weighted", "least_latency"]
ApprovalMode: TypeAlias = Literal["ask", "auto-edit", "yolo", "plan"]
SandboxMode: TypeAlias = Literal["workspace", "read-only", "off"]
StoreKind: TypeAlias = Literal["sqlite", "jsonl", "memory"]
Seconds: TypeAlias = Annotated[float, Meta(gt=0)]
Count: TypeAlias = Annotated[int, Meta(ge=1)]
Dollars: TypeAlias = Annotated[float, Meta(gt=0)]
Share: TypeAlias = Annotated[float, Meta(gt=0, le=1)]
Port: TypeAlias = Annotated[int, Meta(ge=0, le=65535)]


@final
class OptionSettings(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How replies are made: the options that people set. Only what is set is sent."""

    temperature: Annotated[float, Meta(ge=0)] | None = None
    max_tokens: Count | None = None
    """Length of a reply."""
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_k: Count | None = None
    repeat_penalty: float | None = None
    seed: int | None = None
    stop: list[str] = []
    """Texts at which a reply ends."""
    effort: Effort | None = None
    thinking_budget: Annotated[int, Meta(ge=0)] | None = None
    """Tokens that the model may think."""
    extra: dict[str, Any] | None = None
    """Fields of the provider's own, sent as they are."""

    def as_options(self) -> Options:
        return Options(**{**structs.asdict(self), "stop": tuple(self.stop)})


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
    breaker: BreakerSettings = BreakerSettings()
    """When a member that fails is left alone, and for how long."""


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
class SandboxSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What commands of a model, and MCP servers that are started here, run in."""

    mode: SandboxMode = "workspace"
    """workspace: commands write there and in temporary folders; read-only: they write temporary files only; off."""
    hosts: list[str] = []
    """Hosts that commands may reach: "pypi.org", "*.example.org", "localhost:8080"; "*" is the whole network."""
    writable: list[str] = []
    """More paths that commands may write."""
    readable: list[str] = []
    """Hidden paths that commands may read all the same."""
    hidden: list[str] = []
    """More paths that commands do not see."""
    variables: list[str] = []
    """More variables that commands get, with * for anything."""
    memory: Count = 8 << 30
    """Bytes that each process may use."""
    processes: Count = 4_096
    """Processes and threads of a command at a time."""


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
    sandbox: bool = True
    """Whether a server that is started here runs in the sandbox."""
    hosts: list[str] | None = None
    """That it may reach from there; all if not set."""
    paths: list[str] = []
    """That it may write, and see though they are hidden."""


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
    days: Annotated[float, Meta(gt=0)] | None = None
    """Since the last use, after which a session is dropped; only in PostgreSQL."""


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
class GatewayLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one request and all requests together may take; beyond it they are refused with a clear error."""

    body_bytes: Count = 64 << 20
    """Of a request; a larger one gets 413."""
    held_bytes: Count = 256 << 20
    """Of all requests and background replies that a process holds at a time, with 80 for each value of JSON in them, and half of
    it for one caller; beyond it a request gets 503 or 529. What they take of the memory is at most eight times as much."""
    warm_bytes: Count = 160 << 20
    """Of all that a process keeps for the next requests of conversations: what was read, recalled, planned and answered. What was
    not used longest goes first, which costs time and nothing else."""
    messages: Count = 20_000
    """Of a request, with those that it continues; one with more gets 413."""
    values: Count = 200_000
    """Of JSON in a request; one with more gets 413."""
    header_bytes: Count = 64 << 10
    """Of all headers of a request."""
    body_timeout: Seconds = 30.0
    """Seconds in which a request must have arrived; a slower one gets 408."""
    reply_timeout: Seconds = 3600.0
    """Seconds, for a whole reply."""
    store_timeout: Seconds = 1.0
    """Seconds that a request waits for a store that is away, slow or locked. Then it is served without the store, or refused."""
    concurrent: Count = 1000
    """Requests at a time, of one process; one more gets 503 or 529."""
    lag: Seconds = 1.0
    """Seconds that a process may be late with its work; while it is later, new requests get 503 or 529."""
    per_route: Count | None = None
    """Requests at a time to one provider/model."""
    keep_alive: Seconds = 15.0
    """Seconds of silence after which a stream gets a frame that keeps its connection open, where its wire has one."""
    drain: Seconds = 30.0
    """Seconds that running replies have to end when the gateway stops."""


@final
class MemorySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the gateway remembers of replies: seals, native ids and routes that clients cannot hold."""

    keep: Literal["sqlite", "memory"] = "sqlite"
    """In an encrypted file, or only until the process ends; with `store`: in PostgreSQL in place of the file."""
    key_env: str = "SEGUE_INSTALLATION_KEY"
    """The variable with the key that it is encrypted with, 32 bytes in base64; if it is not set, a file has the key."""
    directory: str = ""
    """Where; the data directory of the user if empty."""
    days: Annotated[float, Meta(gt=0)] = 30.0
    """Since the last use."""
    max_bytes: Count = 1 << 30
    max_replies: Count = 500_000


class Allowance(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a caller of the gateway may use. What is not set is not limited."""

    models: list[str] = []
    """Names that clients may ask for, or routes as provider/model, with * for anything; all if empty."""
    requests_per_minute: Count | None = None
    tokens_per_minute: Count | None = None
    concurrent: Count | None = None
    """Requests at a time, on all gateways together."""
    dollars_per_day: Dollars | None = None
    """A day of UTC. With a budget only models are answered whose price is known."""
    dollars_per_month: Dollars | None = None


@final
class CallerSettings(Allowance, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A caller of the gateway that is configured in a file, by the key that its client sends. Others are made with
    `segue gateway keys create`."""

    key_sha256: str = ""
    """The digest of the key, in hexadecimal."""
    key_env: str = ""
    """The variable that holds the key, instead of its digest."""
    expires: str = ""
    """A day or time in ISO form, from which on the key is refused."""
    admin: bool = False
    """An operator: it may make keys and see all usage, over HTTP."""


@final
class AccountSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the gateway keeps what its callers use."""

    when_away: Literal["refuse", "allow"] = "refuse"
    """What becomes of requests of callers with limits while the store cannot be reached."""
    days: Count = 400
    """How long the usage of a day is kept."""


@final
class TelemetrySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the gateway reports to operators' systems."""

    metrics: bool = False
    """GET /metrics for Prometheus, with the key of an operator; needs the extra `metrics`."""
    traces: bool = False
    """OpenTelemetry spans and metrics, sent where its variables (OTEL_…) say; needs the extra `otel`."""


@final
class AlertSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the gateway reports to a webhook: spent budgets, routes that rest, stores that do not answer."""

    webhook_env: str = "SEGUE_ALERT_WEBHOOK"
    """The variable with the address that gets a JSON object for each alert; without it none is sent."""
    budget_percent: list[Annotated[int, Meta(ge=1)]] = field(default_factory=lambda: [80, 100])
    """Parts of a caller's budget; when one is spent, an alert is sent."""


@final
class InspectSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The inspector: pages of the gateway that show its conversations."""

    enabled: bool | None = None
    """Whether it is served at /segue/inspector/; if it is not set: where only this machine reaches the gateway."""
    content: Literal["off", "memory", "store"] | None = None
    """Whether what was said is recorded, in the memory of the process, or also in an encrypted file for as long as the gateway's memory
    keeps its own; if it is not set: in memory, where there are no callers."""
    max_bytes: Count = 64 << 20
    """Of recorded content; beyond it that of conversations used long ago is forgotten."""
    max_requests: Count = 10_000
    """Of which figures are kept."""
    hosts: list[str] = []
    """Names, with their port if it is not the usual one, under which browsers may open the pages, beside those of this machine."""
    operators_see_content: bool = False
    """Whether operators may look at what callers said. Each look is noted in the audit log."""
    approvals: bool = False
    """Whether there is a page on which operators answer for calls in the sessions of this machine that wait for an approval."""


@final
class GatewaySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`segue serve`: other programs talk to any model through one address."""

    host: str = "127.0.0.1"
    """Any address but this machine's own needs a caller's key."""
    port: Port = 8484
    workers: Count = 1
    """Processes."""
    model: str = ""
    """Answers for names that lead nowhere else; without it such a name is refused."""
    models: dict[str, str] = {}
    """Names that clients ask for, with * for anything → provider/model, an alias or a profile."""
    provider_models: bool = True
    """Whether lists of models hold those that the configured providers report, too."""
    reasoning: Literal["safe", "show", "hide"] = "safe"
    """Thoughts of another provider: where the client's own provider accepts them back, everywhere, or nowhere."""
    provider_state: Literal["use", "never"] = "use"
    """Conversations that a client has its own provider hold: continued there by their ids, or sent whole each time."""
    on_disconnect: Literal["cancel", "finish"] = "cancel"
    """When a client goes away: end the provider's reply too, or read it to its end for the usage."""
    whole_replies: Literal["streamed", "whole"] = "whole"
    """How a provider is asked for a reply that its client wants as a whole: so too, where no other model could take over, or always
    for a stream, in which a reply that has stalled is noticed earlier."""
    origins: list[str] = []
    """Web pages that may use the gateway, with * for any part of a host, or any port: "https://*.example.com"."""
    log: Literal["text", "json", "off"] = "text"
    """One line for each request, without content."""
    tls_certificate: str = ""
    """A file in PEM form; with `tls_key` the gateway serves https."""
    tls_key: str = ""
    callers: dict[str, CallerSettings] = {}
    accounts: AccountSettings = AccountSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    alerts: AlertSettings = AlertSettings()
    limits: GatewayLimits = GatewayLimits()
    memory: MemorySettings = MemorySettings()
    inspect: InspectSettings = InspectSettings()


@final
class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings."""

    model: str = ""
    """provider/model, an alias, or the name of a profile."""
    system: str = ""
    """The system prompt."""
    effort: Effort | None = None
    options: dict[str, OptionSettings] = {}
    """By model: provider/model, with * for anything. Where several match, the later one counts."""
    continue_turns: bool = True
    """Whether the next model of a profile or of --fallback continues a turn that fails after tools have run."""
    store: str = ""
    """postgresql://user:password@host/database: one database for many machines, where SQLite files would be used."""
    providers: dict[str, dict[str, Any]] = {}
    """By name. The keys of each are those of `ProviderConfig`."""
    prices: dict[str, DollarsPerMillion | PriceRule] = {}
    """By model: provider/model, with * for anything. Where several match, the later one counts. A number is the price of a
    million tokens, 0 for servers of your own."""
    profiles: dict[str, ProfileSettings] = {}
    aliases: dict[str, str] = {}
    approval: ApprovalSettings = ApprovalSettings()
    tools: ToolSettings = ToolSettings()
    sandbox: SandboxSettings = SandboxSettings()
    mcp: McpSettings = McpSettings()
    sessions: SessionSettings = SessionSettings()
    limits: LimitSettings = LimitSettings()
    gateway: GatewaySettings = GatewaySettings()
    ui: UiSettings = UiSettings()
