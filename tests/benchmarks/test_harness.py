"""The stopwatch refuses to time what disagrees, says who is missing, and judges budgets; no speed is tested."""

import numpy as np
import pytest

from benchmarks import chains, compiled, large, models, report
from benchmarks.__main__ import main
from benchmarks.harness import Budget, Measured, Work, run_work


def ready(result):
    return lambda: lambda: result


def missing():
    raise ModuleNotFoundError("No module named 'peer'")


def test_contenders_that_disagree_are_not_timed():
    work = Work("sum", "a sum", {"dualad": ready(np.ones(3)), "peer": ready(np.array([1.0, 1.0, 1.001]))})
    with pytest.raises(AssertionError, match="sum: peer against dualad"):
        run_work(work, rounds=1, slice_seconds=1e-4)


def test_results_are_compared_through_trees():
    work = Work("tree", "a tree", {"dualad": ready((1.0, [2.0, 3.0])), "peer": ready([1.0, 2.0])})
    with pytest.raises(AssertionError, match="peer returned 2 arrays and dualad 3"):
        run_work(work, rounds=1, slice_seconds=1e-4)


def test_a_missing_peer_is_left_out_with_its_reason_and_the_rest_is_measured(monkeypatch):
    monkeypatch.setattr(report, "versions", lambda: "dualad")  # which would import every peer
    work = Work("row", "a row", {"dualad": ready(1.0), "peer": missing, "NumPy primal": ready(7.0)}, per=10)
    measured, left = run_work(work, rounds=3, slice_seconds=1e-4)
    assert left == {"peer": "not installed (No module named 'peer')"}
    assert {name: len(times.seconds) for name, times in measured.items()} == {"dualad": 3, "NumPy primal": 3}
    assert "left out: not installed" in report.terminal(work, measured, left)
    assert "- peer: not installed (No module named 'peer') (row)." in report.markdown(
        [(work, measured, left)], "x", "idle"
    )


def test_a_contender_that_fails_is_named():
    def broken():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no") as caught:
        run_work(Work("row", "a row", {"peer": lambda: broken}), rounds=1, slice_seconds=1e-4)
    assert caught.value.__notes__ == ["(the contender 'peer' of the benchmark 'row')"]


def test_budgets_are_medians_of_the_ratios_within_rounds():
    # The third round was slow for both: its ratio is as good as the others'.
    measured = {"dualad": Measured([1.0, 2.0, 50.0]), "autograd": Measured([3.0, 8.0, 150.0])}
    met = Budget("≥ 3×", "autograd", "dualad", at_least=3)
    assert met.judge(measured) == (3.0, True)
    assert Budget("≥ 4×", "autograd", "dualad", at_least=4).judge(measured) == (3.0, False)
    assert Budget("≤ 1.5 s", "dualad", None, at_most=1.5).judge(measured) == (2.0, False)
    assert Budget("≥ 2×", "torch.func", "dualad", at_least=2).judge(measured) is None
    work = Work("row", "a row", {}, budgets=(met, Budget("≤ 1.5 s", "dualad", None, at_most=1.5)))
    assert list(report.verdicts(work, measured)) == ["≥ 3×: 3×, met", "≤ 1.5 s: 2 s, **missed**"]


def test_an_unknown_row_is_bad_usage(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--only", "nothing"])
    assert caught.value.code == 2
    assert "no row is called nothing; the rows are import, chain-jvp" in capsys.readouterr().err


ROWS = [work for room in (chains, models, large, compiled) for work in room.works(quick=True)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "work",
    [pytest.param(work, id=work.name, marks=[pytest.mark.full] if i % 3 else []) for i, work in enumerate(ROWS)],
)
def test_every_row_agrees_with_the_derivative_written_by_hand(work):
    two = {name: work.contenders[name] for name in ("dualad", "hand-written")}
    measured, _ = run_work(Work(work.name, work.title, two), rounds=1, slice_seconds=1e-4)
    assert measured.keys() == two.keys()
