"""Commands that only look: programs that are known to read and print, joined by nothing but pipes and sequences,
without options that make them do more.

In the sandbox such a command runs without a question, and there it can write nothing, whatever this list does not
know of it: so the list decides how often somebody is asked, not what can happen.

Options of known programs make them run other programs, read commands from files, or write files. Whoever allows `git
*` has git in mind, not what `git -c alias.x='!rm x' x` runs. Such a command is asked about, whatever pattern allows
the program. The list errs on the side of asking; a program that it does not know is not judged.
"""

from __future__ import annotations

import re
import shlex
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
    "git": """-c --config-env --exec-path --upload-pack --receive-pack -u -x --exec --extcmd -O
        --open-files-in-pager --template --config --git-dir -C --ext-diff --textconv --output --smtp-server
        --sendmail-cmd --tool config --output-directory -o --pager --gpg-sign --signed --strategy
        --attr-source filter-branch bisect submodule difftool mergetool send-email instaweb hook daemon
        credential fast-import merge-index merge-one-file merge-file maintenance archive bundle fast-export
        p4 svn cvsserver cvsimport shell http-backend remote-ext remote-fd subtree web--browse citool gui
        gitk request-pull for-each-repo scalar var init update-server-info worktree --unsafe-paths
        --index-output --prefix --work-tree --filters --web filter-repo lfs annex mailsplit mailinfo
        pack-objects index-pack unpack-file diagnose bugreport""",
    "find": "-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls",
    "fd": "-x --exec -X --exec-batch",
    "fdfind": "-x --exec -X --exec-batch",
    "tar": """--to-command --checkpoint-action -I --use-compress-program --rmt-command --rsh-command -F
        --info-script --new-volume-script -C --directory -P --absolute-names --one-top-level -g
        --listed-incremental --index-file --volno-file --remove-files --delete""",
    "bsdtar": "--use-compress-program -C -P",
    "rsync": """-e --rsh --rsync-path --daemon --config --copy-as --log-file --write-batch --only-write-batch -M
        --remote-option -T --temp-dir --backup-dir --partial-dir""",
    "ssh": "-o -F -E -I -S",
    "scp": "-o -F -S",
    "sftp": "-o -F -S -D -s -b",
    "sort": "--compress-program -o --output -T",
    "sed": "-i --in-place -f --file -s",
    "awk": """-f --file -i --include -l --load -E --exec -e --source -o -p -d -D -W --profile --pretty-print
        --dump-variables --debug""",
    "man": "-P --pager -H --html -C --config-file -T",
    "less": "-o -O --log-file -k --lesskey-file",
    "curl": """-o -O --output --remote-name -K --config -T --upload-file --output-dir -F --form -d --data --engine
        --proxy -x -c --cookie-jar -D --dump-header --trace --trace-ascii --stderr --hsts --alt-svc
        --etag-save --libcurl --unix-socket --abstract-unix-socket -w --write-out --preproxy --resolve
        --connect-to --doh-url -n --netrc --netrc-file --json --data-binary --data-urlencode --data-raw -X
        --request -Q --quote --mail-from --remote-name-all -J""",
    "wget": """-O --output-document --use-askpass --post-file --config -e --execute --body-file -P
        --directory-prefix -i --input-file --save-cookies -o -a --output-file --append-output --rejected-log
        --warc-file --hsts-file --post-data --body-data --method""",
    "zip": "-T -TT --unzip-command -m --move",
    "rg": "--pre --hostname-bin",
    "go": """-toolexec -exec -vettool generate run tool -ldflags -gcflags -overlay -o -C -modfile -coverprofile
        -cpuprofile -memprofile -blockprofile -mutexprofile -trace -outputdir -pkgdir env install get mod
        work -asmflags -gccgoflags -compiler -buildmode -c -fuzz -args clean telemetry bug fix
        -test.coverprofile -test.cpuprofile -test.memprofile -test.blockprofile -test.mutexprofile
        -test.trace -test.outputdir -test.testlogfile -test.gocoverdir -test.fuzzcachedir""",
    "cargo": """--config -Z run install --manifest-path --target-dir --out-dir --artifact-dir -C --lockfile-path
        publish login new init add remove rm uninstall owner yank vendor rustc rustdoc fix --fix --open""",
    "rustc": "-C --codegen -o --out-dir --emit -Z",
    "gcc": "-wrapper -B -fplugin -specs -fuse-ld -Wl -Xlinker -iplugindir -dumpdir -MF",
    "g++": "-wrapper -B -fplugin -specs -fuse-ld -Wl -Xlinker -iplugindir -dumpdir -MF",
    "clang": "-B -fplugin -Xclang -fpass-plugin -ccc-gcc-name --config -mllvm -Wl -Xlinker -fuse-ld",
    "ld": "-plugin --plugin -dynamic-linker",
    "make": "-f --file --makefile --eval -C --directory -I --include-dir SHELL MAKEFLAGS -E",
    "cmake": "-P -E -C --graphviz --trace-redirect --profiling-output --toolchain --install",
    "ninja": "-C -f",
    "npm": """exec x run run-script start test install ci i --script-shell --node-options add isntall in ins inst
        insta instal isnt isnta isntal install-test it cit clean-install ic install-clean isntall-clean
        install-ci-test clean-install-test sit rebuild rb link ln update up upgrade udpate dedupe ddp
        uninstall un unlink remove rm r create init innit publish unpublish login adduser add-user token
        config c set explore edit pkg version audit restart stop t tst rum urn cache owner access dist-tag
        deprecate hook team org profile shrinkwrap pack prune docs home repo bugs issues --prefix -C
        --userconfig --globalconfig --git""",
    "npx": "-c --call",
    "yarn": """exec dlx run --use-yarnrc add install create config link node plugin global publish set --cwd up
        upgrade test start""",
    "pnpm": """exec dlx run add i install create link publish up update rebuild test start config env patch deploy
        --dir -C""",
    "pip": """install --index-url -i --extra-index-url --find-links -f --config-settings --global-option --python
        download wheel uninstall config cache lock --log --proxy --cert""",
    "uv": """run tool pip sync add remove lock venv init build publish export python self cache version auth
        format --directory --project""",
    "python": "-c -m -i -",
    "python3": "-c -m -i -",
    "perl": "-e -E -i -M -m -x - -S -d -I",
    "ruby": "-e -r -i -x - -C -S -I",
    "node": """-e --eval -p --print -r --require --import --loader --experimental-loader -i - --env-file --run
        --build-snapshot --experimental-sea-config --cpu-prof-dir --diagnostic-dir --redirect-warnings
        --trace-event-file-pattern --openssl-config --test-reporter --test-reporter-destination --inspect
        --inspect-brk --heapsnapshot-signal eval run x exec install add task""",
    "php": "-r -B -R -F -E -d -f -S -z -c -t -a",
    "lua": "-e -l -",
    "vi": """-c --cmd -S -s -u -w -i -V -W --startuptime --remote-send --remote-expr --servername --listen -l""",
    "vim": """-c --cmd -S -s -u -w -W -i -V --startuptime --remote-send --remote-expr --servername --listen -l""",
    "nano": "-s --speller -C --backupdir",
    "docker": """run exec -v --volume --mount --privileged -H --host --config build compose create start stop kill rm
        rmi buildx builder container image load import save export push pull login commit context plugin
        volume network swarm service stack system secret attach update cp tag trust extension manifest -c
        --context""",
    "podman": """run exec -v --volume --mount --privileged build create start stop kill rm rmi container image load
        import save export push pull login commit volume network system secret attach update cp tag kube
        play unshare machine generate pod compose --remote --url --runtime --hooks-dir --conmon --module
        --root""",
    "kubectl": """exec run --kubeconfig cp edit debug apply create delete replace patch set scale autoscale rollout
        label annotate expose attach port-forward proxy drain cordon uncordon taint certificate config auth
        plugin kustomize -k -s --server --token --as --cache-dir --profile-output --output-directory""",
    "tcpdump": "-z --postrotate-command -w -W -r",
    "nmap": """--script -oN -oX -oG -oA --datadir -iL -sC -A --resume --stylesheet --servicedb --versiondb""",
    "openssl": """-engine -provider -provider-path -out -config -writerand -keyout -keylogfile -outdir s_server
        s_client s_time""",
    "date": "-f --file -s --set",
    "split": "--filter",
    "wc": "--files0-from",
    "gpg": """--photo-viewer --agent-program --exec-path --output -o --options --import --delete-keys
        --delete-secret-keys --export-secret-keys --edit-key --gen-key --full-gen-key --keyserver
        --recv-keys --homedir --log-file --status-file --logger-file --attribute-file --dirmngr-program
        --load-extension --keyring --decrypt-files --encrypt-files -s --sign --clearsign""",
    "mysql": """-e --execute --pager --tee -h --host --defaults-file --defaults-extra-file --plugin-dir
        --init-command""",
    "psql": "-c --command -f --file -o --output -L --log-file -v --set --variable",
    "sqlite3": "-cmd -init",
    "hg": """--config --cwd -R --repository serve extdiff archive debugshell import bundle histedit bisect clone
        --debugger --style -o --output""",
    "svn": """--config-option --config-dir --editor-cmd --diff-cmd --diff3-cmd export checkout co switch""",
    "terraform": """apply destroy import -chdir init console -out taint untaint state workspace login force-unlock
        refresh providers -plugin-dir get test""",
    "ansible": """-m --module-name -a --args -i --inventory -M --module-path --playbook-dir -e --extra-vars -b
        --become --vault-password-file""",
    "pytest": """-p -c --config-file --rootdir --basetemp --junitxml --junit-xml -o --override-ini --log-file --debug
        --pastebin --pdbcls --confcutdir --pyargs --report-log --cov-report --cov-config""",
    "gh": "alias extension api auth codespace secret ssh-key gpg-key variable gist release workflow config browse clone",
    "helm": "plugin install upgrade uninstall rollback repo registry push pull --post-renderer --kubeconfig",
    "gradle": """-I --init-script -p --project-dir -b --build-file -c --settings-file -g --gradle-user-home
        --project-cache-dir --include-build""",
    "mvn": "-f --file -s --settings -gs --global-settings -t --toolchains -l --log-file exec:exec exec:java deploy",
    "bazel": "run --run_under --output_base --output_user_root --override_repository --bazelrc",
    "mypy": "--python-executable --config-file --cache-dir --install-types --html-report --junit-xml --custom-typeshed-dir",
    "ruff": "--config --output-file --cache-dir",
    "eslint": "-c --config --rulesdir --resolve-plugins-relative-to -o --output-file --parser --plugin",
    "pandoc": "-o --output -F --filter -L --lua-filter --pdf-engine --extract-media --data-dir",
    "bat": "--pager --config-file --map-syntax",
    "tree": "-o -R",
}
"""Options, subcommands and variables. A long one also counts when it is cut short, as most programs take it."""
_BUNDLED: Final = frozenset(
    {
        *("awk", "curl", "less", "man", "mysql", "node", "perl", "php", "psql", "python", "python3", "rsync"),
        *("ruby", "scp", "sed", "sftp", "sort", "ssh", "tar", "tcpdump", "wget", "zip", "git", "make", "fd"),
        *(
            "fdfind",
            "ninja",
            "hg",
            "date",
            "gpg",
            "npx",
            "ansible",
            "pip",
            "cargo",
            "rustc",
            "bsdtar",
            "nano",
        ),
        *("pytest", "gradle", "tree"),
    }
)
"""They take several letters behind one dash: `rsync -ave` holds `-e`."""
_ONE_DASH: Final = frozenset({"go", "terraform", "sqlite3", "gcc", "g++", "clang", "ld", "openssl"})
"""Their long options have one dash, and most of them take two as well."""
_WHOLE_WORDS: Final = frozenset({"go", "terraform"})
"""A value never stands behind one letter in the same word: `go test -count` is not `-c`."""
_PLUS: Final = frozenset({"vi", "vim", "less", "more"})
"""A word that begins with a plus is a command for them."""
_NAME: Final = re.compile(r"[^=,]*")
_ASSIGNMENT: Final = re.compile(r"\w+=")
_MOST_TEXT: Final = 300
"""Characters of a program in a word that are judged: a longer one is asked about, for judging it could take long."""
_SED_RUNS: Final = re.compile(
    r"(?:^|[;{}!$/\d,\n])\s*[ewWrR](?:\s|$)|(?:^|[;{}!$\n])\s*[wW][/.~]|[;{}!$\d]\s*[ewWrR]\S"
    r"|(\W)(?:.*?)\1(?:.*?)\1[gpiIMm\d]*[ew]",
    re.DOTALL,
)
_AWK_RUNS: Final = re.compile(r"system\s*\(|\||getline|>|@load|@include")
_SQL_RUNS: Final = re.compile(
    r"^\s*(?:\.|\\!|\\o|\\i|\\copy)|\bprogram\b|\battach\b|\binto\s*'|load_extension|writefile|readfile|\bedit\s*\(",
    re.IGNORECASE,
)
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
    if program in _ONE_DASH:
        arguments = [word[1:] if word.startswith("--") else word for word in arguments]
    if program in _PLUS and any(word.startswith("+") for word in arguments):
        return True
    options = _OPTIONS.get(program, "").split()
    if any(_is_option(word, option, program) for word in arguments for option in options):
        return True
    if program == "make" and any(_ASSIGNMENT.match(word) for word in arguments):
        return True
    text = _TEXTS.get(program)
    return text is not None and any(
        len(word) > _MOST_TEXT or text.search(word)
        for word in (_script(word) if program == "sed" else word for word in arguments)
        if not word.startswith("-")
    )


def _script(word: str) -> str:
    """A program of sed that stands behind its option in the same word: `-e1e`, `--expression=1e`."""
    if word.startswith("--"):
        return word.partition("=")[2]
    return word[2:] if word.startswith("-e") else word


def _is_option(word: str, option: str, program: str) -> bool:
    """Also with its value in the same word, and a long one cut short."""
    if option.startswith("--"):
        name = word.partition("=")[0]
        return len(name) > 3 and name.startswith("--") and option.startswith(name)
    if option == "-":
        return word == "-"
    if option.startswith("-") and len(option) == 2 and program not in _WHOLE_WORDS:
        if program in _BUNDLED and word.startswith("-") and not word.startswith("--"):
            return option[1] in word[1:]
        return word.startswith(option)
    found = _NAME.match(word)
    return found is not None and found[0] == option


_PROGRAMS: Final = frozenset(
    {
        *(
            "cat",
            "head",
            "tail",
            "wc",
            "nl",
            "tac",
            "rev",
            "fold",
            "fmt",
            "column",
            "paste",
            "cut",
            "tr",
            "sort",
        ),
        *(
            "uniq",
            "comm",
            "join",
            "expand",
            "unexpand",
            "od",
            "xxd",
            "hexdump",
            "strings",
            "base64",
            "md5sum",
        ),
        *("sha1sum", "sha256sum", "sha512sum", "cksum", "b2sum", "grep", "egrep", "fgrep", "rg", "ag", "ack"),
        *(
            "ls",
            "dir",
            "tree",
            "find",
            "fd",
            "fdfind",
            "stat",
            "file",
            "du",
            "df",
            "pwd",
            "readlink",
            "realpath",
        ),
        *(
            "basename",
            "dirname",
            "which",
            "whereis",
            "type",
            "command",
            "diff",
            "cmp",
            "sdiff",
            "echo",
            "printf",
        ),
        *(
            "true",
            "false",
            "test",
            "[",
            "date",
            "cal",
            "uname",
            "hostname",
            "whoami",
            "id",
            "groups",
            "nproc",
        ),
        *(
            "uptime",
            "free",
            "lscpu",
            "locale",
            "seq",
            "expr",
            "bc",
            "dc",
            "jq",
            "yq",
            "sed",
            "awk",
            "gawk",
            "cd",
        ),
        *(
            "ps",
            "pgrep",
            "env",
            "printenv",
            "getconf",
            "man",
            "info",
            "help",
            "less",
            "more",
            "cloc",
            "tokei",
            "git",
        ),
    }
)
_GIT: Final = frozenset(
    {
        *("status", "log", "show", "diff", "blame", "grep", "ls-files", "ls-tree", "rev-parse", "rev-list"),
        *(
            "describe",
            "shortlog",
            "cat-file",
            "name-rev",
            "merge-base",
            "count-objects",
            "whatchanged",
            "reflog",
        ),
        *(
            "for-each-ref",
            "show-ref",
            "show-branch",
            "diff-tree",
            "diff-files",
            "diff-index",
            "cherry",
            "help",
        ),
        *("branch", "tag", "remote", "stash", "check-ignore", "check-attr", "version", "range-diff"),
    }
)
_LISTING: Final = frozenset({"branch", "tag", "remote", "stash", "reflog"})
_LISTS: Final = frozenset(
    {
        "-a",
        "-r",
        "-v",
        "-vv",
        "-l",
        "-n",
        "--list",
        "--all",
        "--show-current",
        "--contains",
        "show",
        "list",
        "get-url",
    }
)
"""Subcommands of git that list with these words, or alone, and change something with others."""
_SAFE_REDIRECTION: Final = re.compile(r"(?:[12]|&)?>>?\s*/dev/null(?![^\s;|&])|2>&1|<\s*[\w./-]+")
_JOINTS: Final = re.compile(r"\|\||&&|[|;\n]")
_QUOTED: Final = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"")
_STARTS_ANOTHER: Final = re.compile(r"[`<>&(){}\\#]|\$\(")
"""Also what changes where a text in quotes begins: a backslash, a comment."""
_OTHER_QUOTES: Final = re.compile(r"\$['\"]")
_MOST: Final = 4_000


def only_reads(command: str) -> bool:
    """Whether a command line consists of programs that read and print."""
    command = command.strip()
    if len(command) > _MOST or _starts_another(command):
        return False
    # Joints inside quotes are text: they must not split a command.
    plain = _QUOTED.sub(lambda quoted: "q" * len(quoted[0]), command)
    pieces, start = [], 0
    for joint in _JOINTS.finditer(plain):
        pieces.append(command[start : joint.start()])
        start = joint.end()
    pieces.append(command[start:])
    words = [_words(piece) for piece in pieces if piece.strip()]
    return bool(words) and all(_reads(one) for one in words)


def _starts_another(command: str) -> bool:
    if _OTHER_QUOTES.search(command):
        return True
    outside = _SAFE_REDIRECTION.sub(" ", _QUOTED.sub(_shown, command))
    return _STARTS_ANOTHER.search(outside.replace("&&", "")) is not None


def _shown(quoted: re.Match[str]) -> str:
    """Of a quoted text, what a shell still runs: nothing in single quotes."""
    return " " if quoted[0][0] == "'" else "`" if re.search(r"`|\$\(", quoted[0]) else " "


def _words(piece: str) -> list[str]:
    try:
        return shlex.split(_SAFE_REDIRECTION.sub(" ", piece))
    except ValueError:
        return []


def _reads(words: list[str]) -> bool:
    if not words or words[0] not in _PROGRAMS or (words[0] != "command" and starts_another(words)):
        return False
    arguments = words[1:]
    if words[0] == "git":
        return _git_reads(arguments)
    return words[0] != "command" or arguments[:1] == ["-v"]


def _git_reads(arguments: list[str]) -> bool:
    while arguments and arguments[0] in ("--no-pager", "-P", "--no-optional-locks"):
        arguments = arguments[1:]
    if not arguments or arguments[0] not in _GIT:
        return False
    if len(arguments) == 1:
        return arguments[0] != "stash"
    if arguments[:2] == ["remote", "show"]:
        return False  # it asks the other machine
    return arguments[0] not in _LISTING or arguments[1] in _LISTS
