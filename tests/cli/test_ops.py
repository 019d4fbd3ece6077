"""`dualad ops`: one row per operator, "n/a" apart from "missing", loops shown."""

from __future__ import annotations

import numpy as np
import pytest

from dualad.cli.main import main
from dualad.core.primitive import Primitive
from dualad.core.tables import OPS


def table(capsys, *names):
    assert main(["ops", *names]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    return header.split(), rows


def test_every_operator_has_its_row(capsys):
    header, rows = table(capsys)
    assert header[:2] == ["op", "numpy"]
    assert [row.split()[0] for row in rows] == sorted(OPS)


def test_rows_say_which_rules_stand(capsys):
    _, (sin, multiply) = table(capsys, "sin", "multiply")
    assert sin.split()[:2] == ["sin", "np.sin"] and "n/a" in sin, "sin is linear in nothing"
    assert "n/a" not in multiply and "ops/" in multiply


def test_a_missing_batch_rule_is_a_loop_and_no_jvp_is_not_applicable(capsys):
    Primitive("planted_loop", impl=np.sin, abstract_eval=lambda x: x, jvp=None, samples=())
    try:
        _, (row,) = table(capsys, "planted_loop")
    finally:
        del OPS["planted_loop"]
    assert row.split()[1:7] == ["-", "op", "n/a", "n/a", "loop", "n/a"] and "test_ops.py" in row


def test_unknown_names_are_explained(capsys):
    assert main(["ops", "sinn"]) == 2
    err = capsys.readouterr().err
    assert "no operator" in err or "none of this name" in err
    assert "sin" in err


@pytest.mark.parametrize("name", ["sin"])
def test_the_place_is_a_file_and_a_line(capsys, name):
    _, (row,) = table(capsys, name)
    path, _, line = row.split()[-1].rpartition(":")
    assert path.endswith(".py") and int(line) > 0


def test_what_is_missing_has_a_reason(capsys):
    assert main(["ops", "--missing"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["name", "reason"]
    assert any(row.startswith("np.save ") for row in rows)
    assert all(len(row.split(None, 1)) == 2 for row in rows)
    assert len(rows) == len(set(rows))
