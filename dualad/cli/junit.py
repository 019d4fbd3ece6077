"""A check as JUnit XML, which CI systems read: a suite per function and point, a case per quantity.

Not for people.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

from dualad.testing import CheckReport, Row

__all__ = ["to_junit"]

# Characters that XML 1.0 can't hold, not even escaped.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def to_junit(reports: Sequence[CheckReport]) -> str:
    """Return the XML document."""
    root = ET.Element("testsuites", name="dualad check")
    for report in reports:
        suite = ET.SubElement(
            root,
            "testsuite",
            name=_clean(f"{report.target} at {report.point}"),
            tests=str(len(report.rows)),
            failures=str(sum(row.status in {"mismatch", "unchecked"} for row in report.rows)),
            errors=str(sum(row.status == "error" for row in report.rows)),
            skipped=str(sum(row.status == "skipped" for row in report.rows)),
            time=f"{sum(row.seconds for row in report.rows):.6f}",
        )
        for row in report.rows:
            _case(suite, report, row)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ET.Element, report: CheckReport, row: Row) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        classname=_clean(f"{report.target} at {report.point}"),
        name=row.quantity,
        time=f"{row.seconds:.6f}",
    )
    if row.status == "error":
        ET.SubElement(case, "error", message=_clean(row.message.splitlines()[0])).text = _clean(row.message)
    elif row.status == "skipped":
        ET.SubElement(case, "skipped", message=_clean(row.message))
    elif row.failed:
        alone = CheckReport(report.target, report.point, (row,))
        text = "\n".join(alone.failures)
        ET.SubElement(case, "failure", message=_clean(text.splitlines()[0])).text = _clean(text)
    said = [f"{o.oracle}: {o.status} {o.reason}".rstrip() for o in row.outcomes if o.reason]
    if said:
        ET.SubElement(case, "system-out").text = _clean("\n".join(said))


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("?", text)
