"""The records that a check returns: which quantity, which oracle, how far apart, and why another could not run.

Plain dataclasses, made once and never changed; `to_json` turns any of them into plain JSON data.

Not for printing: the command line lays them out.
"""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import numpy as np

from dualad.errors import CheckError

__all__ = ["CheckReport", "Mismatch", "Outcome", "Row", "to_json", "without_transform"]


@dataclasses.dataclass(frozen=True)
class Mismatch:
    """The entry that is furthest outside its tolerance."""

    #: its name: ``d out[1] / d theta[2]``
    entry: str
    #: dualad's number
    got: float
    #: the oracle's
    expected: float
    #: how far apart they may be
    tolerance: float
    #: how many entries are outside their tolerance
    count: int


@dataclasses.dataclass(frozen=True)
class Outcome:
    """One oracle's verdict on one quantity."""

    #: its name
    oracle: str
    #: ``"ok"``, ``"mismatch"``, or ``"unavailable"`` (it could not run, or could not judge)
    status: str
    #: the largest error relative to the largest reference entry
    max_error: float | None = None
    #: why it could not run; a remark otherwise
    reason: str = ""
    #: the worst entry
    mismatch: Mismatch | None = None
    #: how many entries it could judge
    judged: int = 0
    #: how many there are
    total: int = 0
    #: how long the oracle took
    seconds: float = 0.0

    def __str__(self) -> str:
        if (bad := self.mismatch) is None:
            return self.reason or self.status
        entries = f"; {bad.count} entries are wrong" if bad.count > 1 else ""
        numbers = f"{bad.entry} is {bad.got:.10g}, {self.oracle} has {bad.expected:.10g}"
        return f"{numbers} (tolerance {bad.tolerance:.2g}{entries})"


@dataclasses.dataclass(frozen=True)
class Row:
    """One quantity of one function at one point."""

    #: ``"jvp"``, ``"vjp"``, ``"jacfwd"``, …
    quantity: str
    #: ``"ok"``, ``"mismatch"``, ``"error"`` (dualad raised), ``"unchecked"`` (no oracle could judge it), ``"skipped"``
    status: str
    #: one per oracle that applies to this quantity
    outcomes: tuple[Outcome, ...] = ()
    #: the error, or why the quantity was skipped
    message: str = ""
    #: how long dualad took
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether this row makes the check fail."""
        return self.status in {"mismatch", "error", "unchecked"}


@dataclasses.dataclass(frozen=True)
class CheckReport:
    """All quantities of one function at one point."""

    #: the function
    target: str
    #: the point, in a few words
    point: str
    #: one per quantity
    rows: tuple[Row, ...]
    #: n of the function as a map from R^n to R^m
    inputs: int = 0
    #: m of it
    outputs: int = 0
    #: dualad's Jacobian, for pictures
    jacobian: np.ndarray | None = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def ok(self) -> bool:
        """Whether every quantity is right."""
        return not any(row.failed for row in self.rows)

    @property
    def cause(self) -> str:
        """Why the transform computed another function, at which line, what to write; empty where it did not.

        All rows that fail then follow from this one.
        """
        return next((row.message for row in self.rows if row.quantity == "value" and row.status == "mismatch"), "")

    @property
    def raised(self) -> dict[str, list[str]]:
        """Each error, with the quantities that it stopped: one usually stops several, and is said once."""
        quantities: dict[str, list[str]] = {}
        said: dict[str, str] = {}
        for row in self.rows:
            if row.status == "error":
                message = said.setdefault(without_transform(row.message), row.message)
                quantities.setdefault(message, []).append(row.quantity)
        return quantities

    @property
    def failures(self) -> list[str]:
        """One text per failure: function, quantity, oracle and the worst entry."""
        errors = [f"{self.target} at {self.point}: {', '.join(q)}: {message}" for message, q in self.raised.items()]
        return [*errors, *self.disagreements]

    @property
    def disagreements(self) -> list[str]:
        """Disagreements that raised nothing: their one common cause, if there is one."""
        if self.cause:
            failed = sum(row.failed for row in self.rows) - 1
            others = f"\n  Hence: {failed} other rows fail" if failed else ""
            return [f"{self.target} at {self.point}: {self.cause}{others}"]
        found = []
        for row in self.rows:
            where = f"{self.target} at {self.point}: {row.quantity}"
            found += [f"{where}: {row.message}"] if row.status == "unchecked" else []
            found += [f"{where} disagrees with {o.oracle}: {o}" for o in row.outcomes if o.mismatch is not None]
        return found

    def __str__(self) -> str:
        lines, raised = [self.cause] if self.cause else [], ""
        for row in self.rows:
            wrong = [o for o in row.outcomes if o.mismatch is not None]
            if wrong:
                others = "".join(f", {o.oracle} too" for o in wrong[1:])
                lines.append(f"{row.quantity:<11}{wrong[0]}".replace(" (tolerance", f"{others} (tolerance"))
            elif row.failed:  # one error usually stops several quantities: say it once
                lines.append(f"{row.quantity:<11}{'the same' if row.message == raised else row.message}")
                raised = row.message
        by_status: dict[str, list[str]] = {}
        for row in self.rows:
            if not row.failed:
                by_status.setdefault(row.status, []).append(row.quantity)
        lines += [f"({status}: {', '.join(names)})" for status, names in by_status.items()]
        name = self.target.rpartition("<locals>.")[2]
        wrong_ones = sum(row.failed for row in self.rows)
        head = f"derivatives of {name} at {self.point}: {wrong_ones} of {len(self.rows)} quantities are wrong"
        return "\n".join([head, *[f"  {part}" for line in lines for part in line.splitlines()]])

    def raise_on_failure(self) -> None:
        """Raise if anything is wrong.

        Raises
        ------
        CheckError
            Naming each function, quantity, oracle and worst entry.
        """
        if not self.ok:
            raise CheckError(
                "\n".join(self.failures),
                "A derivative must agree with every oracle that applies.",
                "Look at the rules of the operators on the way to the entry that is named (dualad trace shows them).",
            )


def without_transform(message: str) -> str:
    """Return a message without what differs where the same line is refused in several transforms."""
    return _OF_TRANSFORM.sub("", message)


#: the kind of a tensor, and whose it is
_OF_TRANSFORM = re.compile(r"\b(Dual|Batched|Staged|Buffer)\b|\(of `\w+`\)")


def to_json(record: Any) -> Any:
    """Return a record, or an array, number, text, None, tuple, list or dict, as plain JSON data.

    Numbers that JSON lacks become strings: ``"nan"``, ``"inf"``.
    """
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        data = {f.name: to_json(getattr(record, f.name)) for f in dataclasses.fields(record)}
        if isinstance(record, CheckReport):
            data["ok"] = record.ok
        return data
    if isinstance(record, np.ndarray):
        return to_json(record.tolist())
    if isinstance(record, dict):
        return {str(key): to_json(value) for key, value in record.items()}
    if isinstance(record, (list, tuple)):
        return [to_json(value) for value in record]
    if isinstance(record, float) and not math.isfinite(record):
        return str(record)
    return record
