"""What users import: the documented namespaces, their names, and that our own documents use no others."""

from __future__ import annotations

import ast
import doctest
import inspect
import pkgutil
from importlib import import_module
from pathlib import Path

import pytest
from scripts import api_reference, namespaces

import segue

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
PROGRAMS = sorted(
    [*ROOT.glob("examples/**/*.py"), *ROOT.glob("docs/**/*.py"), *ROOT.glob("tests/typing/*.py")]
)
every_namespace = pytest.mark.parametrize("namespace", namespaces.NAMESPACES)


@every_namespace
def test_the_names_of_a_namespace_are_sorted_and_found(namespace: str) -> None:
    module = import_module(namespace)
    assert module.__all__ == sorted(set(module.__all__))
    assert set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        _ = module.nonsense


@every_namespace
def test_every_public_name_has_a_docstring(namespace: str) -> None:
    names = import_module(namespace).__all__
    assert [name for name in names if not api_reference.docstring(namespace, name)] == []


@pytest.mark.parametrize("kind", [segue.Agent, segue.BlockingChat, segue.Chat])
def test_every_method_and_parameter_of_a_chat_is_explained(kind: type) -> None:
    members = [getattr(held, "fget", held) for name, held in vars(kind).items() if not name.startswith("_")]
    functions = [member for member in members if inspect.isfunction(member)]
    assert [function.__qualname__ for function in functions if not function.__doc__] == []
    if kind is not segue.BlockingChat:  # a chat makes it
        explained = inspect.getdoc(vars(kind)["__init__"]) or ""
        assert [
            name for name in inspect.signature(kind).parameters if f"\n    {name}: " not in explained
        ] == []


@every_namespace
def test_no_submodule_takes_the_place_of_a_public_name(namespace: str) -> None:
    module = import_module(namespace)
    submodules = {found.name for found in pkgutil.iter_modules(getattr(module, "__path__", ()))}
    assert submodules.isdisjoint(module.__all__)


def test_a_wrong_name_is_answered_with_the_right_one() -> None:
    with pytest.raises(AttributeError) as caught:
        _ = segue.Chta  # type: ignore[attr-defined]
    assert caught.value.name == "Chta"
    assert caught.value.obj is segue


def imports(source: str) -> list[str]:
    """`module` or `module.name` for everything that a program imports from segue."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return [name for name in found if name.split(".")[0] == "segue"]


def offered_by(integration: str) -> list[str]:
    """The names of a module that cannot be loaded without its framework."""
    file = ROOT / "src" / Path(*integration.split(".")).with_suffix(".py")
    for node in ast.parse(file.read_text("utf-8")).body if file.exists() else ():
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def is_public(name: str) -> bool:
    """Whether it is a namespace, or a name of one."""
    namespace, _, last = name.rpartition(".")
    if namespace.startswith("segue.integrations."):
        return last in offered_by(namespace)
    known = namespaces.NAMESPACES
    return name in known or (
        namespace in known and last in [*import_module(namespace).__all__, "__version__"]
    )


def blocks(page: Path) -> list[str]:
    """The Python of a page: what a reader types, without the prompt."""
    found: list[str] = []
    fenced = page.read_text("utf-8").split("```")[1::2]
    for block in fenced:
        language, _, text = block.partition("\n")
        if language == "python":
            examples = doctest.DocTestParser().get_examples(text)
            found.append("".join(example.source for example in examples) or text)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_imports_public_names_only(page: Path) -> None:
    used = [name for block in blocks(page) for name in imports(block)]
    assert [name for name in used if not is_public(name)] == []


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: str(program.relative_to(ROOT)))
def test_an_example_imports_public_names_only(program: Path) -> None:
    used = imports(program.read_text("utf-8"))
    assert [name for name in used if not is_public(name)] == []
