"""`dualad help`: pages of error codes in the terminal."""

from __future__ import annotations

import pytest

from dualad.cli.main import main
from dualad.errors import catalogue


@pytest.mark.parametrize("code", ["DAD012", "dad012", "[DAD012]", "BranchError"])
def test_a_page(code, capsys) -> None:
    assert main(["help", code]) == 0
    out = capsys.readouterr().out
    assert out.startswith("# DAD012 · BranchError")
    assert "## What to write instead" in out


def test_the_list(capsys) -> None:
    assert main(["help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [cls.code for cls in catalogue()]


def test_an_unknown_code(capsys) -> None:
    assert main(["help", "DAD999"]) == 2
    assert "Did you mean DAD" in capsys.readouterr().err
