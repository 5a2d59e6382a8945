"""What a command may touch, as data: places that it may write, places that it does not see, hosts, and how much it may use."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final

from msgspec import Struct, structs

from segue.tools.sandbox.git_places import git_places

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SandboxMode: TypeAlias = Literal["workspace", "read-only", "off"]
EVERY_HOST: Final = "*"

_KEYS: Final = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".oci", ".boto", ".s3cfg", ".vault-token"),
    *(".netrc", ".npmrc", ".pypirc", ".yarnrc", ".yarnrc.yml", ".git-credentials", ".pgpass", ".my.cnf"),
    *(".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".composer/auth.json"),
    *(".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties", ".terraform.d"),
    *(".terraformrc", ".password-store", ".databrickscfg", ".snowflake", ".dbt", ".fly", ".railway"),
    *(".config/gcloud", ".config/gh", ".config/glab-cli", ".config/hub", ".config/git/credentials"),
    *(".config/op", ".config/rclone", ".config/doctl", ".config/heroku", ".config/sops", ".config/age"),
    *(
        ".config/containers/auth.json",
        ".config/pip/pip.conf",
        ".config/uv/credentials",
        ".local/share/uv/credentials",
    ),
    *(".local/share/keyrings", ".local/share/kwalletd", ".local/share/password-store", ".1password"),
    *("Library/Keychains", "Library/Cookies", "Library/Application Support/com.apple.TCC"),
    *(".config/1Password", ".config/Bitwarden", ".config/Bitwarden CLI", ".config/keepassxc", ".keepass"),
    *(".local/share/KeePass", ".lastpass", ".local/share/lpass", ".local/share/gopass", ".config/gopass"),
    *("Library/Application Support/1Password", "Library/Application Support/Bitwarden"),
    *("Library/Application Support/KeePassXC", "Library/Application Support/gcloud"),
    *(
        ".aliyun",
        ".bluemix",
        ".cloudflared",
        ".wrangler",
        ".config/.wrangler",
        ".digitalocean",
        ".linode-cli",
    ),
    *(
        ".config/linode-cli",
        ".config/hcloud",
        ".config/scw",
        ".config/civo",
        ".config/stripe",
        ".config/ngrok4",
    ),
    *(".config/ngrok", ".ngrok2", ".config/netlify", ".netlify", ".vercel", ".local/share/com.vercel.cli"),
    *(
        ".supabase",
        ".pulumi",
        ".minikube",
        ".rancher",
        ".oc",
        ".eksctl",
        ".argocd",
        ".config/argocd",
        ".helm",
    ),
    *(
        ".kaggle",
        ".huggingface",
        ".cache/huggingface/token",
        ".cache/huggingface/stored_tokens",
        ".modal.toml",
    ),
    *(".subversion/auth", ".config/configstore", ".config/sourcegraph", ".sentryclirc"),
    *(".config/travis", ".travis", ".circleci", ".jfrog", ".config/helm/registry"),
    *(".android/adbkey", ".android/debug.keystore", ".nuget/NuGet", ".config/NuGet"),
    *(
        ".Xauthority",
        ".ICEauthority",
        ".k5login",
        ".rhosts",
        ".shosts",
        ".smbcredentials",
        ".config/wireguard",
    ),
    *(".fetchmailrc", ".msmtprc", ".mbsyncrc", ".offlineimaprc", ".config/msmtp", ".config/isyncrc"),
)
_STORES: Final = (
    *(".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware"),
    *(".config/microsoft-edge", ".config/vivaldi", ".config/opera", "snap/firefox", ".var/app"),
    *("Library/Application Support/Google", "Library/Application Support/Firefox", "Library/Safari"),
    *(
        "Library/Messages",
        "Library/Mail",
        "Library/Group Containers",
        "Library/Accounts",
        "Library/Calendars",
    ),
    *(".librewolf", ".waterfox", ".zen", ".floorp", ".tor-browser", ".config/zen", ".local/share/epiphany"),
    *(
        ".local/share/qutebrowser",
        ".config/qutebrowser",
        ".config/falkon",
        "snap/chromium",
        "snap/thunderbird",
    ),
    *("Library/Application Support/BraveSoftware", "Library/Application Support/Microsoft Edge"),
    *("Library/Application Support/Arc", "Library/Application Support/Chromium"),
    *("Library/Application Support/Vivaldi", "Library/HTTPStorages", "Library/WebKit"),
    *("Mail", "Maildir", "mail", ".mail", ".maildir", "mbox", ".mutt", ".muttrc", ".config/mutt"),
    *(
        ".config/neomutt",
        ".config/aerc",
        ".config/evolution",
        ".local/share/evolution",
        ".local/share/akonadi",
    ),
    *(".local/share/kmail2", ".local/share/geary", ".claws-mail", ".notmuch-config", ".config/Signal"),
    *(".config/Slack", ".config/discord", ".config/Element", ".local/share/TelegramDesktop", ".purple"),
    *(".config/teams", ".config/Microsoft", ".weechat", ".config/weechat", ".irssi", ".local/share/weechat"),
    *("Library/Application Support/Slack", "Library/Application Support/Signal"),
    *("Library/Application Support/discord", "Library/Application Support/Telegram Desktop"),
    *(".claude", ".claude.json", ".codex", ".gemini", ".qwen", ".pi", ".config/opencode"),
    *(".local/share/opencode", ".config/github-copilot", ".copilot", ".continue", ".cline", ".cursor"),
    *(".bash_history", ".zsh_history", ".python_history", ".psql_history", ".node_repl_history"),
    *(".mysql_history", ".sqlite_history", ".local/share/fish/fish_history", ".lesshst", ".viminfo"),
    *(".config/segue", ".local/share/segue", ".local/state/segue", ".cache/segue"),
    *("Library/Application Support/segue", "Library/Caches/segue"),
)
_MOVABLE: Final = {
    ".config": "XDG_CONFIG_HOME",
    ".local/share": "XDG_DATA_HOME",
    ".local/state": "XDG_STATE_HOME",
    ".cache": "XDG_CACHE_HOME",
}
"""Folders of the home, and the variables that move them."""
_NAMED_BY_VARIABLES: Final = (
    *(
        "XDG_RUNTIME_DIR",
        "XAUTHORITY",
        "SSH_AUTH_SOCK",
        "GNUPGHOME",
        "PASSWORD_STORE_DIR",
        "NETRC",
        "PGPASSFILE",
    ),
    *("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AZURE_CONFIG_DIR"),
    *(
        "GOOGLE_APPLICATION_CREDENTIALS",
        "CLOUDSDK_CONFIG",
        "KUBECONFIG",
        "DOCKER_CONFIG",
        "REGISTRY_AUTH_FILE",
    ),
    *("NPM_CONFIG_USERCONFIG", "PIP_CONFIG_FILE", "GH_CONFIG_DIR", "OCI_CLI_CONFIG_FILE", "VAULT_TOKEN_FILE"),
    *("RCLONE_CONFIG", "TF_CLI_CONFIG_FILE", "SOPS_AGE_KEY_FILE", "MAIL", "MAILDIR", "CLAUDE_CONFIG_DIR"),
    *("CODEX_HOME", "HISTFILE"),
)
"""Variables with the place of a key or a store that is not where it is usually."""
_SYSTEM: Final = (
    *(
        "/etc/shadow",
        "/etc/gshadow",
        "/etc/sudoers",
        "/etc/sudoers.d",
        "/etc/ssl/private",
        "/etc/krb5.keytab",
    ),
    *(
        "/etc/ssh",
        "/etc/wireguard",
        "/etc/NetworkManager/system-connections",
        "/var/lib/docker",
        "/var/spool",
    ),
    *("/var/lib/containerd", "/var/lib/postgresql", "/var/lib/mysql", "/var/mail", "/var/log/journal"),
    *("/run", "/tmp", "/var/tmp", "/boot/efi", "/lost+found"),  # noqa: S108
)
"""/run holds the sockets of the desktop, of Docker and of the system; temporary folders hold those of other programs."""
_VISIBLE_IN_RUN: Final = (
    "/run/current-system",
    "/run/opengl-driver",
    "/run/systemd/resolve",
    "/run/booted-system",
)
_START_FILES: Final = (
    *(
        ".bashrc",
        ".bash_profile",
        ".bash_login",
        ".bash_logout",
        ".profile",
        ".zshrc",
        ".zshenv",
        ".zprofile",
    ),
    *(
        ".zlogin",
        ".config/fish",
        ".gitconfig",
        ".config/git",
        ".config/autostart",
        ".config/systemd",
        ".vimrc",
    ),
    *(
        ".config/nvim",
        ".emacs",
        ".emacs.d",
        ".inputrc",
        ".xprofile",
        ".xinitrc",
        ".xsession",
        ".pam_environment",
    ),
    *(".config/environment.d", ".local/bin", "bin", ".pythonrc", ".condarc", ".config/direnv", ".envrc"),
    *("Library/LaunchAgents",),
)
"""What other programs run or obey without being asked. It matters where somebody works in his home folder."""
_PROJECT_FILES: Final = (
    *(".segue", "segue.toml", ".mcp.json", ".vscode", ".idea", ".zed", ".devcontainer", ".envrc", ".husky"),
    *(".claude", ".codex", ".gemini", ".qwen", ".cursor", ".opencode", "opencode.json"),
)
"""Settings in a workspace that programs outside of the sandbox obey."""
_CACHES: Final = (
    *(
        ".npm",
        ".cache/pip",
        ".cache/uv",
        ".cache/yarn",
        ".cache/pnpm",
        ".cache/go-build",
        ".cache/ms-playwright",
    ),
    *("go/pkg", ".cargo/registry", ".cargo/git", ".gradle/caches", ".m2/repository", ".local/share/pnpm"),
    *(
        ".bun/install/cache",
        ".cache/deno",
        ".cache/ruff",
        ".cache/mypy",
        ".cache/pre-commit",
        ".nuget/packages",
    ),
)
"""What package managers and compilers write for themselves. What is in them runs outside of the sandbox as well, so a
command gets them to read only; a server that the user has configured may fill them."""


OWN_PROGRAMS: Final = (sys.prefix, sys.base_prefix, str(Path(__file__).resolve().parents[3]))
"""The Python that runs, and this package: whoever tries something out has them below the folder of temporary files, and the
launcher and servers need them."""


@final
class SandboxLimits(Struct, frozen=True, kw_only=True):
    """How much of the machine a command may use."""

    memory: int = 8 << 30
    """Bytes, of each process."""
    processes: int = 4_096
    """At a time, threads included."""


@final
class Grant(Struct, frozen=True):
    """What is allowed beside the usual."""

    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    def plus(self, other: Grant) -> Grant:
        return Grant(
            (*self.writable, *other.writable), (*self.readable, *other.readable), (*self.hosts, *other.hosts)
        )


@final
class SandboxPolicy(Struct, frozen=True, kw_only=True):
    """All paths are absolute, free of links, and but for those of `absent` were there when the policy was made."""

    folder: str
    """Where the command starts."""
    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    """Within hidden places."""
    protected: tuple[str, ...] = ()
    """Within writable places, to be read only."""
    absent: tuple[str, ...] = ()
    """To be protected as well, and not there: what a command makes of them is set aside when it has ended."""
    hidden: tuple[str, ...] = ()
    temporary: str = ""
    """The folder that the command has for its temporary files."""
    hosts: tuple[str, ...] = ()
    """That may be reached: `example.org`, `*.example.org`, `example.org:8080`; `*` is the whole network."""
    limits: SandboxLimits = SandboxLimits()
    own_caches: bool = True
    """Caches of package managers are among its temporary files; else they are the user's."""

    @property
    def is_open(self) -> bool:
        """Whether the network is not limited."""
        return EVERY_HOST in self.hosts

    def may_write(self, path: str) -> bool:
        """Whether a path is in a writable place."""
        places = (*self.writable, self.temporary)
        kept = (*self.protected, *self.absent)
        return _is_in(path, places) and not _is_in(path, kept) and not self.hides(path)

    def hides(self, path: str) -> bool:
        """Whether a path is in a hidden place, and in no place within it that is shown."""
        covers = [place for place in self.hidden if _is_in(path, [place])]
        shown = [place for place in (*self.writable, *self.readable, self.temporary) if _is_in(path, [place])]
        return bool(covers) and max(map(len, covers)) > max(map(len, shown), default=0)


def make_policy(
    mode: SandboxMode,
    workspace: str | Path,
    temporary: str | Path,
    *,
    grant: Grant | None = None,
    hidden: Iterable[str] = (),
    caches: bool = False,
    limits: SandboxLimits | None = None,
    home: str | Path | None = None,
) -> SandboxPolicy:
    """The usual policy for a workspace. `caches`: package managers may fill theirs."""
    root, more = os.path.realpath(workspace), grant or Grant()
    at_home = os.path.realpath(Path.home() if home is None else home)
    git = git_places(root)
    own: list[str] = []
    if mode == "workspace":
        own += [root, *git.folders]
        own += [f"{at_home}/{name}" for name in _CACHES if caches]
    protected = [*git.hooks, *(f"{root}/{name}" for name in _PROJECT_FILES)]
    if _is_in(at_home, [root]):
        protected += [f"{at_home}/{name}" for name in _START_FILES]
    granted = _whole(more.writable)
    kept = [path for path in _whole(protected) if not _is_in_any(granted, path)]
    written = _existing([*own, *granted])
    seen = [root, *_VISIBLE_IN_RUN, *OWN_PROGRAMS, *more.readable]
    covered = [*_private_places(at_home), *_SYSTEM, *_named_places(at_home)]
    policy = SandboxPolicy(
        folder=root,
        writable=written,
        protected=_existing(kept),
        absent=tuple(path for path in kept if not os.path.lexists(path) and _is_in(path, written)),
        hidden=_existing([*covered, *hidden]),
        temporary=os.path.realpath(temporary),
        hosts=tuple(dict.fromkeys(more.hosts)),
        limits=limits or SandboxLimits(),
        own_caches=not caches,
    )
    shown = tuple(path for path in _existing(seen) if policy.hides(path))
    return structs.replace(policy, readable=shown)


def repositories(workspaces: Iterable[str], but: Iterable[str] = ()) -> tuple[str, ...]:
    """Where git keeps the repositories of workspaces, except for those that somebody has named."""
    named = _existing(but)
    found = _existing(
        place
        for root in workspaces
        for place in (*git_places(root).folders, os.path.join(root, ".git"))  # noqa: PTH118
    )
    return tuple(place for place in found if not _is_in_any(named, place))


def _is_in_any(paths: Iterable[str], place: str) -> bool:
    return any(_is_in(path, [place]) for path in paths)


def _private_places(home: str) -> Iterator[str]:
    """Keys and stores, also where the user has moved the folders of settings and data."""
    moved = {folder: place for folder, name in _MOVABLE.items() if (place := os.environ.get(name, ""))}
    for name in (*_KEYS, *_STORES):
        yield f"{home}/{name}"
        yield from (
            f"{place}{name.removeprefix(folder)}"
            for folder, place in moved.items()
            if name.startswith(f"{folder}/")
        )


def _named_places(home: str) -> Iterator[str]:
    """What variables name. Some hold several paths, some a device (`/dev/null`), and some no path at all."""
    for name in _NAMED_BY_VARIABLES:
        for path in os.environ.get(name, "").split(os.pathsep):
            if path.startswith("/") and not path.startswith("/dev/") and not _is_in(home, [path]):
                yield path


def _existing(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(path for path in _whole(paths) if os.path.exists(path))  # noqa: PTH110


def _whole(paths: Iterable[str]) -> tuple[str, ...]:
    whole = (os.path.realpath(os.path.expanduser(path)) for path in paths if path)  # noqa: PTH111 - text stays text
    return tuple(dict.fromkeys(whole))


def _is_in(path: str, places: Iterable[str]) -> bool:
    return any(path == place or path.startswith(f"{place.rstrip('/')}/") for place in places if place)
