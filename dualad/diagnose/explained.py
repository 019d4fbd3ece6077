"""The findings of ``explain``, and how they are shown: text, HTML, plain data.

Not for: finding it (``explain.py``).
"""

from __future__ import annotations

import html
import linecache
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

from .values import Difference

__all__ = ["Explanation", "Failure", "Line", "STATUSES", "Use", "merge_uses", "source_of"]

#: what can be said of a use, from harmless to fatal, and in words
STATUSES = {
    "rules": "has rules: forward, reverse, batched",
    "custom": "has a rule of the user's own",
    "constant": "computes with constants: there is nothing to differentiate",
    "branch": "is a branch on a traced value",
    "slow": "works, in a slow way",
    "loop": "is called once per lane under vmap",
    "opaque": "is never looked into",
    "drops": "drops the tangent: its derivative is zero",
    "refused": "is refused",
}
_MARKS = {
    "rules": "✓", "custom": "✓", "constant": "·", "branch": "?", "slow": "~", "loop": "~", "opaque": "□", "drops": "0",
    "refused": "✗",
}  # fmt: skip


class Use(NamedTuple):
    """One operation that a line of the user's applies.

    Attributes
    ----------
    name : str
        As the user wrote it (``np.mean``), or the operator's name.
    operators : tuple of str
        What it is made of, where that is something else.
    status : str
        A key of ``STATUSES``.
    forward, reverse, batched : str
        ``"yes"``, ``"zero"`` (the derivative is), ``"no"``, ``"loop"``, ``"-"`` (nothing moves), or ``"rule"`` (the
        user's own).
    count : int
        How many times.
    note, instead : str
        What there is to say, and what to write instead.
    """

    name: str
    operators: tuple[str, ...]
    status: str
    forward: str
    reverse: str
    batched: str
    count: int  # type: ignore[assignment]  # tuple.count, which nobody asks of a use
    note: str = ""
    instead: str = ""


class Line(NamedTuple):
    """A line of the user's source and its uses."""

    file: str
    number: int
    source: str
    uses: list[Use]


class Failure(NamedTuple):
    """Where the function stopped, if it did: the line, its source, the error's type and first line."""

    file: str
    number: int
    source: str
    error: str
    message: str


class Explanation:
    """Which operations a function uses, and what derivatives and ``vmap`` make of each.

    ``print`` shows it, a notebook shows a table, ``to_dict()`` is plain data for JSON.

    Attributes
    ----------
    function : str
        The function's name.
    lines : list of Line
        The lines that compute with traced values, in order of file and number.
    failure : Failure or None
        Where the function itself stopped; the lines before it are listed all the same.
    difference : Difference or None
        How the value of the watched function differs from that of a plain call, and why it seems so.
    lifted : bool
        Whether transforms lift the function by themselves, as this report does: it is refused something otherwise.
    """

    def __init__(
        self, function: str, lines: list[Line], failure: Failure | None = None, difference: Difference | None = None,
        lifted: bool = False,
    ) -> None:  # fmt: skip
        self.function, self.lines, self.failure, self.difference = function, lines, failure, difference
        self.lifted = lifted

    @property
    def uses(self) -> list[Use]:
        """All uses, line by line."""
        return [use for line in self.lines for use in line.uses]

    @property
    def ok(self) -> bool:
        """Whether nothing is refused and the function ran to its end, to the value that a plain call has."""
        return (
            self.failure is None and self.difference is None and not any(use.status == "refused" for use in self.uses)
        )

    def count(self, status: str) -> int:
        """Return how many uses have a status."""
        return sum(use.status == status for use in self.uses)

    @property
    def summary(self) -> str:
        """One line: how many uses there are of which kind."""
        total = len(self.uses)
        parts = [f"{self.count(s)} {s}" for s in STATUSES if self.count(s)]
        text = f"{total} operation{'s' * (total != 1)} on {len(self.lines)} line{'s' * (len(self.lines) != 1)}"
        text += f": {', '.join(parts)}" if parts else ""
        text += "; lifted by itself" if self.lifted else ""
        if self.failure is not None:
            text += f"; stopped at {_short(self.failure.file)}:{self.failure.number}"
        if self.difference is not None:
            return f"{text}. Its derivatives would be another function's."
        return f"{text}. {'Every derivative can be taken.' if self.ok else 'Not every derivative can be taken.'}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data.

        Returns
        -------
        dict
            Of strings, numbers, lists and dicts: ``function``, ``ok``, ``lifted``, ``summary`` (uses per status),
            ``lines``, ``failure``, ``difference``.
        """
        return {
            "function": self.function,
            "ok": self.ok,
            "lifted": self.lifted,
            "summary": {s: self.count(s) for s in STATUSES},
            "lines": [
                {**line._asdict(), "uses": [{**use._asdict(), "operators": list(use.operators)} for use in line.uses]}
                for line in self.lines
            ],
            "failure": None if self.failure is None else self.failure._asdict(),
            "difference": None if self.difference is None else self.difference._asdict(),
        }

    def to_text(self, width: int = 100) -> str:
        """Return the report as text.

        Parameters
        ----------
        width : int
            Of a line, in characters.

        Returns
        -------
        str
            A block per file, a line per line of the source, notes below it, the summary last.
        """
        out = [f"explain: {self.function}"]
        file = None
        for line in self.lines:
            if line.file != file:
                file = line.file
                out.append(_short(file))
            fine = [use for use in line.uses if not use.note]
            fine = [use for use in fine if use.status != "constant"] or fine
            names = f"{_MARKS[fine[0].status]} {', '.join(map(_named, fine))}" if fine else ""
            left, column = f"{line.number:5}  {line.source}", max(40, width // 2)
            beside = bool(names) and len(left) < column and len(left) + len(names) < width
            out.append(left.ljust(column) + names if beside else left.rstrip())
            out += _wrap(names, width) if names and not beside else []
            for use in line.uses:
                if use.note:
                    out += _wrap(f"{_MARKS[use.status]} {_named(use)}: {use.note}", width)
                    if use.instead:
                        out += _wrap(f"instead: {use.instead}", width, 11)
        if self.failure is not None:
            f = self.failure
            out.append(f"stopped at {_short(f.file)}:{f.number}  {f.source}")
            out += _wrap(f"✗ {f.error}: {f.message}", width)
        if self.difference is not None:
            for part in str(self.difference).split("\n  "):
                out += _wrap(f"✗ {part}", width)
            out += _wrap(f"instead: {self.difference.instead}", width, 11)
        out.append(self.summary)
        return "\n".join(out)

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f"<explanation of {self.function}: {self.summary}>"

    def _repr_html_(self) -> str:
        rows = []
        for line in self.lines:
            for i, use in enumerate(line.uses):
                place = (str(line.number), f"<code>{html.escape(line.source)}</code>") if not i else ("", "")
                note = html.escape(use.note) + (f"<br><i>{html.escape(use.instead)}</i>" if use.instead else "")
                cells = [*place, f"{_MARKS[use.status]} {html.escape(_named(use))}"]
                cells += [use.forward, use.reverse, use.batched, note]
                rows.append("<tr>" + "".join(f"<td style='text-align:left'>{c}</td>" for c in cells) + "</tr>")
        head = "".join(f"<th>{h}</th>" for h in ("line", "source", "uses", "forward", "reverse", "batched", "note"))
        stopped = ""
        if self.failure is not None:
            f = self.failure
            stopped = f"<p>stopped at {html.escape(_short(f.file))}:{f.number}: {html.escape(f.error)}: "
            stopped += f"{html.escape(f.message)}</p>"
        if self.difference is not None:
            stopped += f"<p>{html.escape(str(self.difference))}<br><i>{html.escape(self.difference.instead)}</i></p>"
        return (
            f"<p><b>{html.escape(self.function)}</b>: {html.escape(self.summary)}</p>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{stopped}"
        )


def source_of(file: str, number: int) -> str:
    """Return a line of a file, without its indentation."""
    return linecache.getline(file, number).strip()


def _named(use: Use) -> str:
    text = use.name + (f" ({', '.join(use.operators)})" if use.operators else "")
    text += " [custom rule]" if use.status == "custom" else ""
    return text + (f" ×{use.count}" if use.count > 1 else "")


def _short(file: str) -> str:
    return "/".join(file.replace("\\", "/").split("/")[-2:])


def _wrap(text: str, width: int, indent: int = 9) -> list[str]:
    """Break a text into lines; those after the first are indented two more."""
    first, rest = " " * indent, " " * (indent + 2)
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def merge_uses(uses: Sequence[Use]) -> list[Use]:
    """Count equal uses of one line once."""
    counts: dict[Use, int] = {}
    for use in uses:
        key = use._replace(count=0)
        counts[key] = counts.get(key, 0) + use.count
    return [use._replace(count=n) for use, n in counts.items()]
