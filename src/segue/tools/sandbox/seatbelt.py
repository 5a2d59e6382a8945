"""The policy in the language of macOS: everything is allowed but writing, hidden places, the network and other processes.

The last rule that fits decides, so what is allowed again stands behind what is denied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from segue.tools.sandbox.policy import SandboxPolicy

_HEAD: Final = """(version 1)
(allow default)
(deny file-write*)
(deny network*)
(deny process-info* (target others))
(deny signal (target others))
(allow signal (target same-sandbox))
(deny mach-priv-task-port)
(deny system-privilege)
(deny iokit-open)
(deny appleevent-send)
(deny mach-lookup (global-name "com.apple.securityd"))
(deny mach-lookup (global-name "com.apple.SecurityServer"))
(deny mach-lookup (global-name "com.apple.pasteboard.1"))
(deny mach-lookup (global-name "com.apple.coreservices.launchservicesd"))
(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (literal "/dev/ptmx")
    (regex #"^/dev/ttys[0-9]+$") (regex #"^/dev/fd/"))"""
_INET: Final = """(allow network-bind (local ip "localhost:*"))
(allow network-inbound (local ip "localhost:*"))"""


def seatbelt_profile(policy: SandboxPolicy, port: int = 0) -> str:
    """For sandbox-exec. `port`: where the proxy listens on this machine; 0 without one."""
    lines = [_HEAD]
    lines += [f"(deny file-read* file-write* {_beneath(path)})" for path in policy.hidden]
    lines += [f"(allow file-read* {_beneath(path)})" for path in (*policy.readable, *policy.writable)]
    lines += [
        f"(allow file-write* {_beneath(path)})" for path in (*policy.writable, policy.temporary) if path
    ]
    lines += [f"(allow file-read* {_beneath(policy.temporary)})"] if policy.temporary else []
    lines += [f"(deny file-write* {_beneath(path)})" for path in policy.protected]
    inner = [path for path in policy.hidden if any(path.startswith(f"{place}/") for place in policy.writable)]
    lines += [f"(deny file-read* file-write* {_beneath(path)})" for path in inner]
    if policy.is_open:
        lines.append("(allow network*)")
    else:
        lines.append(_INET)
        if port:
            lines.append(f'(allow network-outbound (remote ip "localhost:{port}"))')
    return "\n".join(lines) + "\n"


def _beneath(path: str) -> str:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'(subpath "{escaped}")'
