"""Every Python block of the README and of docs/, and every docstring example of the public modules, is run here.

Blocks of one page share a namespace and run in order. A block of `>>>` lines is checked as a doctest. A block that
can't be run carries a reason on the line above it, and such blocks are few, because they are counted:

    <!-- not run: needs a GPU -->

One that is about another package is run where that is installed:

    <!-- needs: nutpie -->

Not for examples/ (tests/examples) nor for whether the pages build (`make docs`).
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import importlib.util
import pkgutil
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import dualad
from dualad.core.tables import FUNCTIONS, OPS, UFUNCS, VERDICTS

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "generated" not in page.parts),
]
MOST_BLOCKS_NOT_RUN = 3
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL

FENCE = re.compile(r"^(?P<indent> *)(?P<fence>```+)(?P<language>\S*)[^\n]*$")
NOT_RUN = re.compile(r"^\s*<!-- not run:(?P<reason>.*)-->\s*$")
NEEDS = re.compile(r"^\s*<!-- needs: (?P<package>\w+) -->\s*$")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?!https?:|mailto:|#)(?P<target>[^)#\s]+)(?:#[^)]*)?\)")


class Block(NamedTuple):
    line: int
    """Of the block's first line of code, counted from 1."""
    language: str
    code: str
    reason_not_run: str | None
    package: str | None = None

    @property
    def runs(self) -> bool:
        installed = self.package is None or importlib.util.find_spec(self.package) is not None
        return self.reason_not_run is None and installed


def blocks_of(text: str) -> Iterator[Block]:
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        opening = FENCE.match(lines[number])
        if opening is None:
            number += 1
            continue
        above = next((line for line in reversed(lines[:number]) if line.strip()), "")
        mark, needs = NOT_RUN.match(above), NEEDS.match(above)
        start = number + 1
        closing = opening["indent"] + opening["fence"]
        number = start
        while number < len(lines) and lines[number].rstrip() != closing:
            number += 1
        code = "\n".join(line.removeprefix(opening["indent"]) for line in lines[start:number]) + "\n"
        reason, package = mark and mark["reason"].strip(), needs and needs["package"]
        yield Block(start + 1, opening["language"], code, reason, package)
        number += 1


def python_blocks(page: Path) -> list[Block]:
    return [
        block for block in blocks_of(page.read_text()) if block.language in {"python", "pycon", "{plot}", "{notebook}"}
    ]


def run_block(block: Block, page: Path, namespace: dict) -> None:
    if block.language == "{plot}":
        run_plot(block, page)
    elif block.language == "{notebook}":
        run_notebook(block, page)
    elif block.code.lstrip().startswith(">>>"):
        parser = doctest.DocTestParser()
        test = parser.get_doctest(block.code, namespace, f"{page.name}:{block.line}", str(page), block.line - 1)
        # get_doctest copies the namespace; the next block needs what this one defines.
        test.globs = namespace
        report: list[str] = []
        doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append, clear_globs=False)
        assert not report, "".join(report)
    else:
        # Blank lines above put the block at its own line of the page, for tracebacks and for messages that quote it.
        exec(compile("\n" * (block.line - 1) + block.code, str(page), "exec"), namespace)


def run_notebook(block: Block, page: Path) -> None:
    """Run a block of a page's, whose last line has something to show."""
    tree = ast.parse("\n" * (block.line - 1) + block.code, str(page))
    last = tree.body.pop()
    assert isinstance(last, ast.Expr), f"{page.name}:{block.line} ends with a statement and shows nothing"
    namespace = {"np": np, "da": dualad, "__name__": "page"}
    exec(compile(tree, str(page), "exec"), namespace)
    assert "<svg" in eval(compile(ast.Expression(last.value), str(page), "eval"), namespace)._repr_html_()


def run_plot(block: Block, page: Path) -> None:
    """Run what the documentation shows as a picture: a program of its own, as Sphinx runs it."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    before = pyplot.get_backend()
    pyplot.switch_backend("Agg")
    code = re.sub(r"^:\w+: .*$", "", block.code, flags=re.MULTILINE)  # the directive's options
    try:
        exec(compile("\n" * (block.line - 1) + code, str(page), "exec"), {"np": np, "plt": pyplot, "da": dualad})
        assert pyplot.get_fignums(), f"{page.name}:{block.line} draws nothing"
    finally:
        pyplot.close("all")
        pyplot.switch_backend(before)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture
def registry() -> Iterator[None]:
    """Forget the operators that a page declares: the registry is the list of other tests."""
    for late in ("dualad.ops.special", "dualad.surface.polynomial_package", "dualad.scipy"):  # not the page's own
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(late)
    tables = (OPS, UFUNCS, FUNCTIONS, VERDICTS)
    before = [dict(table) for table in tables]
    yield
    for table, entries in zip(tables, before, strict=True):
        table.clear()
        table.update(entries)


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks(page)], ids=name_of)
def test_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.delenv("DUALAD_FULL_TRACEBACK", raising=False)  # pages show what their readers will see
    namespace: dict = {"__name__": f"page_{page.stem}"}
    for block in python_blocks(page):
        if block.runs:
            run_block(block, page, namespace)


def test_blocks_that_are_not_run_are_few_and_say_why() -> None:
    not_run = {
        f"{name_of(page)}:{block.line}": block.reason_not_run
        for page in PAGES
        for block in python_blocks(page)
        if block.reason_not_run is not None
    }
    assert all(not_run.values()), f"give the reason: {[where for where, reason in not_run.items() if not reason]}"
    assert len(not_run) <= MOST_BLOCKS_NOT_RUN, f"too many blocks are not run: {not_run}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_inside_the_repository_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for link in LINK.finditer(prose):
        target = (page.parent / link["target"]).resolve()
        # Pages made by docs/generate.py exist only after a build.
        assert target.exists() or "generated" in target.parts, f"{name_of(page)} links to {link['target']}"
        inside = target.is_relative_to(ROOT / "docs")
        is_known = inside or target.suffix != ".md" or not page.is_relative_to(ROOT / "docs")
        assert is_known, f"{name_of(page)} links to {link['target']}, which Sphinx does not know: name it in `code`"


def modules() -> list[str]:
    names = ["dualad"]
    names += [info.name for info in pkgutil.walk_packages(dualad.__path__, "dualad.") if "__main__" not in info.name]
    return names


@pytest.mark.parametrize("name", modules())
def test_docstring_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(name)
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    report: list[str] = []
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, extraglobs={"np": np, "da": dualad}):
        runner.run(test, out=report.append)
    assert not report, "".join(report)


def test_public_functions_have_a_runnable_example() -> None:
    finder = doctest.DocTestFinder(recurse=False)
    without = [
        name
        for name in dualad.__all__
        if callable(getattr(dualad, name)) and not any(t.examples for t in finder.find(getattr(dualad, name), name))
    ]
    assert not without, f"public names without a docstring example: {without}"


def test_the_reader_of_blocks_reads_blocks() -> None:
    """Check the checker: indentation, order, line numbers, the mark of a block that is not run, and failures."""
    page = """
```python
a = 1
```

- in a list

  ```python
  b = a + 1
  ```

<!-- not run: it is wrong on purpose -->
```python
1 / 0
```

```console
$ not python
```

<!-- needs: numpy -->
```python
c = 3
```

<!-- needs: a_package_that_nobody_has -->
```python
d = 4
```
"""
    first, second, third, fourth, fifth, sixth = blocks_of(page)
    assert [block.runs for block in (first, third, fifth, sixth)] == [True, False, True, False]
    assert (first.line, first.code, first.reason_not_run) == (3, "a = 1\n", None)
    assert (second.line, second.code) == (9, "b = a + 1\n")
    assert third.reason_not_run == "it is wrong on purpose"
    assert fourth.language == "console"
    namespace: dict = {}
    for block in (first, second):
        run_block(block, Path("page.md"), namespace)
    assert namespace["b"] == 2
    with pytest.raises(ZeroDivisionError):
        run_block(third, Path("page.md"), namespace)
    with pytest.raises(AssertionError, match="Expected"):
        run_block(Block(1, "python", ">>> 1 + 1\n3\n", None), Path("page.md"), namespace)


def test_the_page_on_installing_names_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    page = (ROOT / "docs" / "how-to" / "install.md").read_text()
    ours = {"test", "packages", "docs", "lint", "package", "coverage", "mutants", "bench"}  # of who works on dualad
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == extras.keys() - ours


def test_the_api_pages_have_every_public_name() -> None:
    """A name that users can import and not find in the documentation does not exist to them."""
    reference = ROOT / "docs" / "reference"
    pages = "".join(page.read_text() for page in sorted((reference / "api").glob("*.md")))
    named = set(re.findall(r"^\.\. (?:auto\w+|py:data):: dualad\.(\w+)$", pages, re.MULTILINE))
    public = set(dualad.__all__)
    modules = {"numpy", "tree"}  # described as such
    assert named >= public - modules, f"missing: {sorted(public - modules - named)}"
    assert named <= public | modules, f"not public: {sorted(named - public)}"
    table = set(re.findall(r"`(\w+)`", (reference / "api.md").read_text()))
    assert table >= named, f"not in the table of tasks: {sorted(named - table)}"


def test_every_picture_has_a_text_for_those_who_do_not_see_it() -> None:
    without = [
        f"{name_of(page)}:{block.line}"
        for page in PAGES
        for block in python_blocks(page)
        if block.language == "{plot}" and not block.code.startswith(":alt: ")
    ]
    assert not without, f"plots without a line `:alt: ...`: {without}"
