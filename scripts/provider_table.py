"""The table of providers in docs/providers.md, from providers.toml. Without --write it fails when out of date."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from segue.providers.hosts.addresses import Address, addresses

PAGE = Path(__file__).resolve().parent.parent / "docs" / "providers.md"
TABLE = re.compile(r"(?<=<!-- addresses -->\n).*?(?=<!-- /addresses -->)", re.DOTALL)


def table() -> str:
    lines = ["| name | what | key | another address |", "|---|---|---|---|"]
    for address in addresses().providers.values():
        names = ", ".join(f"`{name}`" for name in (address.name, *address.aliases))
        lines.append(f"| {names} | {_what(address)} | {_key(address)} | {_names(address.base_url_env)} |")
    known = [address for address in addresses().providers.values() if address.documented]
    lines += [
        "",
        "Nobody has tried these against the providers themselves. Known from documentation and SDKs only:",
        "",
    ]
    lines += [f"- `{address.name}`: {_known(address)}." for address in known]
    return "\n".join(["", *lines, "", ""])


def _known(address: Address) -> str:
    doubt = f"; confirmed by no source: {address.unconfirmed}" if address.unconfirmed else ""
    return f"{address.documented}{doubt}"


def _what(address: Address) -> str:
    return f"[{address.title}]({address.docs})" if address.docs else address.title


def _key(address: Address) -> str:
    names = _names(address.key_env)
    return names if address.needs_key else f"{names} (not needed)" if names else "not needed"


def _names(variables: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in variables)


def main(words: list[str]) -> int:
    page = PAGE.read_text("utf-8")
    written = TABLE.sub(lambda _: table(), page)
    if "--write" in words:
        PAGE.write_text(written, "utf-8")
    elif page != written or not TABLE.search(page):
        print(
            "docs/providers.md is out of date: run python -m scripts.provider_table --write", file=sys.stderr
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
