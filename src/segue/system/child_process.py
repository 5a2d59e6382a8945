"""Programs that we start: with few variables, in a process group of their own, and never longer than ourselves.

Beside each program a watchdog waits for the end of a pipe that only this process holds open. The end comes with the
death of this process, however it dies; then the whole group is killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, final

from segue.text.redaction import redact_environment, redact_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SHELL: Final = "/bin/sh"
PASSED_VARIABLES: Final = frozenset(
    {
        *(
            "HOME",
            "LOGNAME",
            "PATH",
            "PWD",
            "OLDPWD",
            "SHELL",
            "SHLVL",
            "USER",
            "USERNAME",
            "HOSTNAME",
            "UMASK",
        ),
        *(
            "TEMP",
            "TMP",
            "TMPDIR",
            "TZ",
            "TZDIR",
            "LANG",
            "LANGUAGE",
            "TERM",
            "COLORTERM",
            "COLUMNS",
            "LINES",
        ),
        *(
            "CLICOLOR",
            "CLICOLOR_FORCE",
            "FORCE_COLOR",
            "NO_COLOR",
            "EDITOR",
            "PAGER",
            "VISUAL",
            "BROWSER",
            "CI",
        ),
        *("XDG_BIN_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_DIRS", "XDG_CONFIG_HOME", "XDG_DATA_DIRS"),
        *("XDG_DATA_HOME", "XDG_STATE_HOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "MANPATH", "INFOPATH"),
        *("CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE"),
        *("ALL_PROXY", "FTP_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"),
        *(
            "AR",
            "AS",
            "CC",
            "CFLAGS",
            "CPATH",
            "CPPFLAGS",
            "CXX",
            "CXXFLAGS",
            "LD",
            "LDFLAGS",
            "LIBRARY_PATH",
        ),
        *("CMAKE_GENERATOR", "CMAKE_PREFIX_PATH", "MAKEFLAGS", "MAKELEVEL", "PKG_CONFIG_PATH", "SDKROOT"),
        *("SOURCE_DATE_EPOCH", "SYSTEMROOT", "COMSPEC", "PATHEXT", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA"),
        *("CONDA_DEFAULT_ENV", "CONDA_PREFIX", "PYENV_ROOT", "PYENV_VERSION", "VIRTUAL_ENV", "UV_CACHE_DIR"),
        *("PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONHOME", "PYTHONIOENCODING", "PYTHONPATH"),
        *("PYTHONUNBUFFERED", "PYTHONUTF8", "PYTHONWARNINGS", "PYTEST_ADDOPTS", "TOX_ENV_DIR"),
        *("PIP_CACHE_DIR", "PIP_CERT", "PIP_CONFIG_FILE", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"),
        *("PIP_INDEX_URL", "PIP_NO_INDEX", "UV_DEFAULT_INDEX", "UV_FIND_LINKS", "UV_INDEX_URL", "UV_PYTHON"),
        *(
            "NODE_ENV",
            "NODE_OPTIONS",
            "NODE_PATH",
            "NPM_CONFIG_CACHE",
            "NPM_CONFIG_PREFIX",
            "NPM_CONFIG_REGISTRY",
        ),
        *("NVM_BIN", "NVM_DIR", "PNPM_HOME", "BUN_INSTALL", "VOLTA_HOME", "DENO_DIR"),
        *("GEM_HOME", "GEM_PATH", "RAILS_ENV", "RBENV_ROOT", "RBENV_VERSION", "RUBYLIB", "PERL5LIB"),
        *("CARGO_HOME", "CARGO_TARGET_DIR", "RUSTC_WRAPPER", "RUSTFLAGS", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"),
        *("GO111MODULE", "GOARCH", "GOBIN", "GOCACHE", "GOFLAGS", "GOMODCACHE", "GOOS", "GOPATH", "GOPROXY"),
        *("GOROOT", "GOSUMDB", "GOTOOLCHAIN", "CGO_ENABLED", "JAVA_HOME", "JDK_HOME", "MAVEN_HOME"),
        *("ANDROID_HOME", "DOTNET_ROOT", "GRADLE_HOME", "GRADLE_USER_HOME", "KOTLIN_HOME", "SCALA_HOME"),
        *("GIT_AUTHOR_EMAIL", "GIT_AUTHOR_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_NAME", "GIT_EDITOR"),
        *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_SYSTEM", "GIT_CEILING_DIRECTORIES"),
        *("GOMAXPROCS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES"),
    }
)
"""What shells, compilers and package managers of the common languages read."""
PASSED_PREFIXES: Final = ("LC_",)
_WATCHED: Final = """number=$1; shift
{ exec 3<"/dev/fd/$number" || exit; read -r _ <&3; kill -9 0; } >/dev/null 2>&1 &
unset PWD OLDPWD SHLVL
exec "$@"
"""
"""Without /dev/fd there is no watchdog, rather than one that kills at once. What runs in the background reads no input."""


def child_environment(
    environment: Mapping[str, str] | None = None, more: Iterable[str] = ()
) -> dict[str, str]:
    """The variables that programs need, by a list: a name says nothing about whether its value is a secret.

    `more`: names that the user adds, with * for anything. Even of these none that holds a key of ours passes, and no place
    on the search path that depends on the current folder: a program there would run in the place of the one that was meant.
    """
    held = os.environ if environment is None else environment
    named = {name for name in held if any(fnmatchcase(name, pattern) for pattern in more)}
    kept = redact_environment({name: value for name, value in held.items() if _is_passed(name)})
    kept |= redact_keys({name: held[name] for name in named})
    if "PATH" in kept:
        kept["PATH"] = os.pathsep.join(filter(os.path.isabs, kept["PATH"].split(os.pathsep)))
    return kept


def _is_passed(name: str) -> bool:
    return name.upper() in PASSED_VARIABLES or name.upper().startswith(PASSED_PREFIXES)


@final
class ChildProcess:
    """A running program, and the pipes that its output comes from and that its watchdog waits at."""

    def __init__(self, process: asyncio.subprocess.Process, output: int, alive: int) -> None:
        self.process = process
        self.output = output
        """Whoever started the program reads and closes it."""
        self._alive = alive

    @classmethod
    async def start(cls, command: Sequence[str], **streams: Any) -> ChildProcess:
        """Start a program; `streams`, `pass_fds` and the rest are those of asyncio. Raises OSError if there is no such program."""
        watched, alive = os.pipe()
        # Not asyncio's own pipe: with that, waiting for a process waits for whoever inherited its output, too.
        output, written = os.pipe()
        words = (SHELL, "-c", _WATCHED, "sh", str(watched), *command)
        try:
            process = await _started(words, watched, {**streams, "stdout": written})
        except BaseException:
            os.close(alive)
            os.close(output)
            raise
        finally:
            os.close(watched)
            os.close(written)
        return cls(process, output, alive)

    def signal(self, number: signal.Signals) -> None:
        """To the whole group."""
        _signal_group(self.process.pid, number)

    def end(self) -> None:
        """Kill whatever is left of the group. The process itself is to be waited for."""
        self.signal(signal.SIGKILL)
        if self._alive >= 0:
            os.close(self._alive)
            self._alive = -1


async def _started(
    command: Sequence[str], watched: int, streams: dict[str, Any]
) -> asyncio.subprocess.Process:
    passed = (watched, *streams.pop("pass_fds", ()))
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(*command, pass_fds=passed, start_new_session=True, **streams)
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # By now it may run, and have started others: asyncio alone would end only the first of them.
        await asyncio.wait([starting])
        if starting.exception() is None:
            _signal_group(starting.result().pid, signal.SIGKILL)
            await starting.result().wait()
        raise


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


async def read_pipe(
    descriptor: int, *, limit: int = 65_536
) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    """The reading end of a pipe. Closing the transport closes it; `limit`: bytes that one line may have."""
    reader = asyncio.StreamReader(limit=limit)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    return reader, transport
