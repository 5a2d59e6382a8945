"""Which commands only look."""

from __future__ import annotations

import pytest

from segue.tools.read_only_commands import only_reads


@pytest.mark.parametrize(
    "command",
    [
        "ls -la src",
        "cat README.md | head -20",
        "git status -s",
        "git log --oneline -5 && git diff --stat",
        "git --no-pager show HEAD",
        "git branch -a",
        "git stash list",
        "grep -rn 'a; rm b' src | wc -l",
        'rg "def (foo|bar)" src 2>/dev/null | sort | uniq -c',
        "find . -name '*.py' -newer setup.py",
        "cd src && ls",
        "sed -n '5,10p' a.py",
        "awk '{print $1}' a",
        "echo $HOME",
        "command -v python3",
        "wc -l < a.txt",
        "head -5 a; tail -5 b",
        "env",
        "ls" + " " * 5_000,
        "ls a 2>/dev/null; ls b",
    ],
)
def test_programs_that_print_only_look(command: str) -> None:
    assert only_reads(command)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "make",
        "python3 a.py",
        "ls > files",
        "ls >> files",
        "cat a | sh",
        "cat a | tee b",
        "ls; rm a",
        "ls\nrm a",
        "ls & rm a",
        "echo $(rm a)",
        "echo `rm a`",
        'echo "$(rm a)"',
        "cat <(rm a)",
        "find . -delete",
        "find . -exec rm {} +",
        "sed -i s/a/b/ a",
        "sort -o a a",
        "git commit -m x",
        "git branch new",
        "git stash",
        "git -c alias.x='!rm a' x",
        "git checkout .",
        "git diff --output=x",
        "env rm a",
        "command rm a",
        "xargs rm",
        "rm 'unfinished",
        "A=1 make",
        "ls \\'; rm a; echo \\'",
        'ls \\"; rm a; echo \\"',
        "ls # '\nrm a\n# '",
        "ls $'\\''\nrm a\necho '",
        "ls > /dev/nullable",
        "ls >/dev/null/../../a",
        "git remote show origin",
        "ls " + "x" * 5_000,
    ],
)
def test_everything_else_is_asked_about(command: str) -> None:
    assert not only_reads(command)
