"""Options of known programs that make them run other programs, read commands from files, or write files.

Whoever allows `git *` has git in mind, not what `git -c alias.x='!rm x' x` runs. Such a command is asked about, whatever
pattern allows the program. The list errs on the side of asking; a program that it does not know is not judged.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RUNNERS: Final = frozenset(
    {
        *(".", "ash", "bash", "busybox", "csh", "dash", "fish", "ksh", "sh", "source", "tcsh", "zsh"),
        *("builtin", "command", "env", "eval", "exec", "nice", "nohup", "time", "timeout", "watch", "xargs"),
        *("chroot", "doas", "fakeroot", "newgrp", "nsenter", "pkexec", "runuser", "setpriv", "su", "sudo"),
        *("chrt", "flock", "ionice", "prlimit", "setarch", "setsid", "stdbuf", "taskset", "unshare"),
        *("expect", "parallel", "proxychains", "rlwrap", "run-parts", "screen", "script", "tmux", "unbuffer"),
        *("gdb", "ltrace", "ssh-agent", "start-stop-daemon", "strace", "systemd-run", "watchman", "xvfb-run"),
    }
)
"""They run what their words name; by themselves, with options or assignments only, they do no more than print."""

_OPTIONS: Final[Mapping[str, str]] = {
    "git": """-c --config-env --exec-path --upload-pack --receive-pack -u -x --exec --extcmd -O --open-files-in-pager
        --template --config --git-dir -C --ext-diff --textconv --output --smtp-server --sendmail-cmd --tool config
        --output-directory -o --pager --gpg-sign --signed --strategy --attr-source
        filter-branch bisect submodule difftool mergetool send-email instaweb hook daemon credential fast-import
        merge-index merge-one-file merge-file maintenance archive bundle fast-export p4 svn cvsserver cvsimport shell
        http-backend remote-ext remote-fd subtree web--browse citool gui gitk request-pull for-each-repo scalar var init
        update-server-info worktree""",
    "find": "-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls",
    "fd": "-x --exec -X --exec-batch",
    "fdfind": "-x --exec -X --exec-batch",
    "tar": """--to-command --checkpoint-action -I --use-compress-program --rmt-command --rsh-command -F --info-script
        --new-volume-script""",
    "bsdtar": "--use-compress-program",
    "rsync": "-e --rsh --rsync-path --daemon --config --copy-as",
    "ssh": "-o -F -E -I -S",
    "scp": "-o -F -S",
    "sftp": "-o -F -S -D -s -b",
    "sort": "--compress-program -o --output -T",
    "sed": "-i --in-place -f --file -s",
    "awk": "-f --file -i --include -l --load -E --exec -e --source",
    "man": "-P --pager -H --html -C --config-file -T",
    "less": "-o -O --log-file -k --lesskey-file",
    "curl": "-o -O --output --remote-name -K --config -T --upload-file --output-dir -F --form -d --data --engine --proxy -x",
    "wget": "-O --output-document --use-askpass --post-file --config -e --execute --body-file -P --directory-prefix",
    "zip": "-T -TT --unzip-command",
    "rg": "--pre --hostname-bin",
    "go": """-toolexec -exec -vettool generate run tool -ldflags -gcflags -overlay -o -C -modfile -coverprofile
        -cpuprofile -memprofile -blockprofile -mutexprofile -trace -outputdir -pkgdir env install get mod work""",
    "cargo": """--config -Z run install --manifest-path --target-dir --out-dir --artifact-dir -C --lockfile-path
        publish login""",
    "rustc": "-C --codegen",
    "gcc": "-wrapper -B -fplugin -specs",
    "g++": "-wrapper -B -fplugin -specs",
    "clang": "-B -fplugin -Xclang",
    "ld": "-plugin --plugin",
    "make": "-f --file --makefile --eval -C --directory -I --include-dir SHELL MAKEFLAGS",
    "cmake": "-P -E -C",
    "ninja": "-C -f",
    "npm": "exec x run run-script start test install ci i --script-shell --node-options",
    "npx": "-c --call",
    "yarn": "exec dlx run --use-yarnrc",
    "pnpm": "exec dlx run",
    "pip": "install --index-url -i --extra-index-url --find-links -f --config-settings --global-option --python",
    "uv": "run tool pip sync add",
    "python": "-c -m -i -",
    "python3": "-c -m -i -",
    "perl": "-e -E -i -M -m -x -",
    "ruby": "-e -r -i -x -",
    "node": "-e --eval -p --print -r --require --import --loader --experimental-loader -i -",
    "php": "-r -B -R -F -E -d -f",
    "lua": "-e -l -",
    "vi": "-c --cmd -S -s -u -w",
    "vim": "-c --cmd -S -s -u -w -W",
    "nano": "-s --speller -C --backupdir",
    "docker": "run exec -v --volume --mount --privileged -H --host --config build compose",
    "podman": "run exec -v --volume --mount --privileged build",
    "kubectl": "exec run --kubeconfig cp edit debug",
    "tcpdump": "-z --postrotate-command -w -W -r",
    "nmap": "--script -oN -oX -oG -oA --datadir -iL",
    "openssl": "-engine -provider -provider-path -out -config",
    "date": "-f --file -s --set",
    "split": "--filter",
    "wc": "--files0-from",
    "gpg": "--photo-viewer --agent-program --exec-path --output -o --options",
    "mysql": "-e --execute --pager --tee",
    "psql": "-c --command -f --file -o --output -L --log-file",
    "sqlite3": "-cmd -init",
    "hg": "--config --cwd -R --repository",
    "svn": "--config-option --config-dir --editor-cmd --diff-cmd --diff3-cmd",
    "terraform": "apply destroy import -chdir",
    "ansible": "-m --module-name -a --args",
}
"""Options, subcommands and variables. A long one also counts when it is cut short, as most programs take it."""
_BUNDLED: Final = frozenset(
    {
        *("awk", "curl", "less", "man", "mysql", "node", "perl", "php", "psql", "python", "python3", "rsync"),
        *("ruby", "scp", "sed", "sftp", "sort", "ssh", "tar", "tcpdump", "wget", "zip"),
    }
)
"""They take several letters behind one dash: `rsync -ave` holds `-e`."""
_ASSIGNMENT: Final = re.compile(r"\w+=")
_MOST_TEXT: Final = 300
"""Characters of a program in a word that are judged: a longer one is asked about, for judging it could take long."""
_SED_RUNS: Final = re.compile(
    r"(?:^|[;{}!$/\d,\n])\s*[ewWrR](?:\s|$)|(\W)(?:.*?)\1(?:.*?)\1[gpiIMm\d]*[ew]", re.DOTALL
)
_AWK_RUNS: Final = re.compile(r"system\s*\(|\||getline|>|@load|@include")
_SQL_RUNS: Final = re.compile(r"^\s*(?:\.|\\!|\\o|\\i|\\copy)|\bprogram\b", re.IGNORECASE)
_TEXTS: Final[Mapping[str, re.Pattern[str]]] = {
    "sed": _SED_RUNS,
    "awk": _AWK_RUNS,
    "sqlite3": _SQL_RUNS,
    "psql": _SQL_RUNS,
}
"""Programs whose words are programs themselves: what starts others or writes files in them."""
_SAME: Final = {
    **dict.fromkeys(("gawk", "mawk", "nawk"), "awk"),
    **dict.fromkeys(("gsed",), "sed"),
    **dict.fromkeys(("gtar",), "tar"),
    **dict.fromkeys(("gmake",), "make"),
    **dict.fromkeys(("cc", "c++"), "gcc"),
    **dict.fromkeys(("clang++",), "clang"),
    **dict.fromkeys(("nvim", "view", "ex"), "vim"),
    **dict.fromkeys(("nodejs", "bun", "deno"), "node"),
    **dict.fromkeys(("pip3",), "pip"),
    **dict.fromkeys(("pypy", "pypy3"), "python"),
}
_VERSION: Final = re.compile(r"[\d.]+$")


def starts_another(words: Sequence[str]) -> bool:
    """Whether a simple command makes a known program run something else, or write a file."""
    if not words:
        return True
    program = words[0].rpartition("/")[2]
    program = _SAME.get(program, program)
    if program not in _OPTIONS and program not in RUNNERS:  # python3.12
        program = _VERSION.sub("", program) or program
    arguments = words[1:]
    if program in RUNNERS:
        return any(not word.startswith("-") and not _ASSIGNMENT.match(word) for word in arguments) or any(
            word.startswith(("-S", "--split-string")) for word in arguments
        )
    if program == "tar" and arguments and not arguments[0].startswith("-"):
        arguments = [f"-{arguments[0]}", *arguments[1:]]  # the old way: tar xIf
    options = _OPTIONS.get(program, "").split()
    if any(_is_option(word, option, program) for word in arguments for option in options):
        return True
    if program == "make" and any(_ASSIGNMENT.match(word) for word in arguments):
        return True
    text = _TEXTS.get(program)
    return text is not None and any(
        len(word) > _MOST_TEXT or text.search(word) for word in arguments if not word.startswith("-")
    )


def _is_option(word: str, option: str, program: str) -> bool:
    """Also with its value in the same word, and a long one cut short."""
    if option.startswith("--"):
        name = word.partition("=")[0]
        return len(name) > 3 and name.startswith("--") and option.startswith(name)
    if option == "-":
        return word == "-"
    if option.startswith("-") and len(option) == 2:
        if program in _BUNDLED and word.startswith("-") and not word.startswith("--"):
            return option[1] in word[1:]
        return word.startswith(option)
    return word.partition("=")[0] == option
