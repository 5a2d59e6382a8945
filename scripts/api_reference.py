"""The API reference, docs/api: a page for each public namespace, from signatures and docstrings. Without --write it fails
when a page is out of date."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TypeAlias, cast

from scripts.namespaces import NAMESPACES

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "api"
WIDTH = 110
_KNOWN_BASES = {"Exception", "Protocol"}
Definition: TypeAlias = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.AnnAssign | ast.Assign


def pages() -> dict[str, str]:
    """File name → text."""
    return {"README.md": _index(), **{f"{name}.md": _page(name) for name in NAMESPACES}}


def _index() -> str:
    rows = [f"| [`{name}`]({name}.md) | {_summary(import_module(name).__doc__)} |" for name in NAMESPACES]
    intro = (
        "These are the public names. Everything else may change from one version to the next. "
        "The pages are generated from the docstrings: `make docs`."
    )
    return "\n".join(
        ["# API reference", "", *_wrapped(intro), "", "| namespace | what |", "|---|---|", *rows, ""]
    )


def _page(namespace: str) -> str:
    module = import_module(namespace)
    lines = [f"# `{namespace}`", "", inspect.cleandoc(module.__doc__ or ""), ""]
    lines += ["| name | what |", "|---|---|"]
    lines += [
        f"| [`{name}`]({_place(name, namespace)}) | {_summary(docstring(namespace, name))} |"
        for name in module.__all__
    ]
    for name in module.__all__:
        if _home_page(name, namespace) == namespace:
            lines += ["", f"## `{name}`", "", *_entry(namespace, name)]
    return "\n".join([*lines, ""])


def _place(name: str, namespace: str) -> str:
    page = _home_page(name, namespace)
    described = [other for other in import_module(page).__all__ if _home_page(other, page) == page]
    same = [other for other in described if other.lower() == name.lower()]
    # Of headings that differ in capitals alone, the second gets a number.
    anchor = name.lower() + (f"-{same.index(name)}" if same.index(name) else "")
    return f"#{anchor}" if page == namespace else f"{page}.md#{anchor}"


def _home_page(name: str, namespace: str) -> str:
    """A name that a narrower namespace offers too is described there; `segue` only lists it."""
    value = getattr(import_module(namespace), name)
    for other in NAMESPACES[1:]:
        module = import_module(other)
        if name in module.__all__ and getattr(module, name) is value:
            return other
    return namespace


def docstring(namespace: str, name: str) -> str:
    """What a public name is for; empty if nobody wrote it down."""
    node, following = _definition(*_home(namespace, name))
    return _docstring_of(node, following)


def _home(namespace: str, name: str) -> tuple[ModuleType, str]:
    """The module that defines a public name."""
    module = import_module(namespace)
    value = getattr(module, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        return import_module(value.__module__), value.__name__
    homes: dict[str, str] = getattr(module, "_HOMES", {})
    home = next((home for home, names in homes.items() if name in names.split()), namespace)
    return import_module(home), name


def _definition(module: ModuleType, name: str) -> tuple[Definition, ast.stmt | None]:
    body = _parsed(module.__file__ or "").body
    # The last one: of overloads it is the function itself.
    node, following = [pair for pair in _pairs(body) if _name_of(pair[0]) == name][-1]
    return cast("Definition", node), following


@cache
def _parsed(path: str) -> ast.Module:
    return ast.parse(Path(path).read_text("utf-8"))


def _pairs(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, ast.stmt | None]]:
    """Statements, each with the next: the docstring of an attribute stands below it."""
    return zip(body, [*body[1:], None], strict=True)


def _name_of(node: ast.stmt) -> str:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return name
        case ast.AnnAssign(target=target) | ast.Assign(targets=[target]):
            return ast.unparse(target)
        case _:
            return ""


def _docstring_of(node: ast.stmt, following: ast.stmt | None) -> str:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return ast.get_docstring(node) or ""
    match following:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return inspect.cleandoc(text)
        case _:
            return ""


def _entry(namespace: str, name: str) -> list[str]:
    module, own_name = _home(namespace, name)
    node, following = _definition(module, own_name)
    text = _docstring_of(node, following)
    match node:
        case ast.ClassDef():
            return _class(getattr(module, own_name), node)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return [*_code(_signature(node)), "", text]
        case _:
            # Double quotes, as the formatter writes them in documents too.
            shown = ast.unparse(node.value).replace("'", '"') if node.value is not None else ""
            value = shown if len(shown) <= 2 * WIDTH else "…"
            return [*_code("\n    ".join(textwrap.wrap(f"{name} = {value.strip(chr(34))}", WIDTH))), "", text]


def _class(value: type, node: ast.ClassDef) -> list[str]:
    bases = [base.__name__ for base in value.__bases__]
    shown = ", ".join(base for base in bases if base in _KNOWN_BASES or _is_public(base))
    keywords = any(ast.unparse(keyword) == "kw_only=True" for keyword in node.keywords)
    lines = [*_code(f"class {node.name}({shown})" if shown else f"class {node.name}"), ""]
    lines += [ast.get_docstring(node) or ""]
    fields, methods = _members(value)
    if fields:
        lines += ["", "Fields, all given by name:" if keywords else "Fields:", "", *fields]
    for method in methods:
        lines += ["", *_code(_signature(method, value.__name__ if method.name == "__init__" else ""))]
        lines += ["", text] if (text := ast.get_docstring(method)) else []
    return lines


def _members(value: type) -> tuple[list[str], list[ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Fields and methods of a class, those that it has from other classes of segue included."""
    fields: dict[str, str] = {}
    methods: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
    for base in reversed(value.__mro__):
        if not base.__module__.startswith("segue.") or (base is not value and _is_public(base.__name__)):
            continue
        node, _ = _definition(import_module(base.__module__), base.__name__)
        for member, following in _pairs(node.body if isinstance(node, ast.ClassDef) else []):
            name, text = _name_of(member), _docstring_of(member, following)
            match member:
                case ast.FunctionDef() | ast.AsyncFunctionDef() if name == "__init__":
                    methods[name] = member
                    fields |= _attributes(member)
                case ast.FunctionDef(returns=returns) if _is_property(member) and name[0] != "_":
                    fields[name] = _field(f"{name}: {ast.unparse(returns) if returns else ''}", text)
                case ast.FunctionDef() | ast.AsyncFunctionDef() if name[0] != "_":
                    methods[name] = member
                case ast.AnnAssign() | ast.Assign() if name[0] != "_":
                    fields[name] = _field(ast.unparse(member), text)
    return list(fields.values()), list(methods.values())


def _is_public(name: str) -> bool:
    return any(name in import_module(namespace).__all__ for namespace in NAMESPACES)


def _attributes(constructor: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, str]:
    """What a constructor puts into an object, where its meaning is written below."""
    found: dict[str, str] = {}
    for node, following in _pairs(constructor.body):
        name, text = _name_of(node), _docstring_of(node, following)
        if isinstance(node, ast.AnnAssign) and name.startswith("self.") and name[5] != "_" and text:
            found[name[5:]] = _field(f"{name[5:]}: {ast.unparse(node.annotation)}", text)
    return found


def _is_property(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(decorator) == "property" for decorator in node.decorator_list)


def _field(declaration: str, text: str) -> str:
    return f"- `{declaration}`" + (f": {' '.join(text.split())}" if text else "")


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str = "") -> str:
    """As it is called: without `self`, and over several lines where it is long."""
    kind = "" if name else "async def " if isinstance(node, ast.AsyncFunctionDef) else "def "
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None and not name else ""
    parameters = [text for text in _parameters(node.args) if text not in ("self", "cls")]
    line = f"{kind}{name or node.name}({', '.join(parameters)}){returns}"
    if len(line) <= WIDTH:
        return line
    return f"{kind}{name or node.name}(\n" + "".join(f"    {text},\n" for text in parameters) + f"){returns}"


def _parameters(arguments: ast.arguments) -> Iterator[str]:
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
    for index, (argument, default) in enumerate(zip(positional, defaults, strict=True), 1):
        yield _parameter(argument, default)
        if index == len(arguments.posonlyargs):
            yield "/"
    if arguments.vararg is not None:
        yield "*" + ast.unparse(arguments.vararg)
    elif arguments.kwonlyargs:
        yield "*"
    yield from map(_parameter, arguments.kwonlyargs, arguments.kw_defaults)
    if arguments.kwarg is not None:
        yield "**" + ast.unparse(arguments.kwarg)


def _parameter(argument: ast.arg, default: ast.expr | None) -> str:
    return ast.unparse(argument) + (f" = {ast.unparse(default)}" if default is not None else "")


def _code(text: str) -> list[str]:
    return ["```py", text, "```"]


def _summary(text: str | None) -> str:
    """The first sentence, as it fits into a table."""
    paragraph = " ".join((text or "").split("\n\n")[0].split())
    return paragraph.partition(". ")[0].rstrip(".:").replace("|", "\\|") + "."


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH)


def main(words: list[str]) -> int:
    written = pages()
    present = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.md")}
    if "--write" in words:
        FOLDER.mkdir(exist_ok=True)
        for name in present.keys() - written:
            (FOLDER / name).unlink()
        for name, text in written.items():
            (FOLDER / name).write_text(text, "utf-8")
    elif written != present:
        print("docs/api is out of date: run python -m scripts.api_reference --write", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
