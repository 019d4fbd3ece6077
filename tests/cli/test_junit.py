"""JUnit XML that a parser reads, with the counts that CI systems show."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from dualad.cli.junit import to_junit
from dualad.testing import CheckReport, Mismatch, Outcome, Row

REPORT = CheckReport(
    "file.py:<f> & \x00co",
    "point 1",
    (
        Row("jvp", "ok", (Outcome("differences", "ok", 3e-12, "a remark"),), seconds=0.5),
        Row("vjp", "mismatch", (Outcome("dot", "mismatch", 0.25, mismatch=Mismatch("x[0]", 2.5, 2.0, 1e-7, 1)),)),
        Row("hvp", "error", message="TypeError: <no>\n  at file.py:3"),
        Row("jacfwd", "unchecked", message="no oracle could judge"),
        Row("jacrev", "skipped", message="too large"),
    ),
)


def test_counts_and_texts():
    root = ET.fromstring(to_junit([REPORT, REPORT]))
    assert root.tag == "testsuites" and len(root) == 2
    suite = root[0]
    assert {k: suite.get(k) for k in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5",
        "failures": "2",
        "errors": "1",
        "skipped": "1",
    }
    cases = {case.get("name"): case for case in suite}
    assert [child.tag for child in cases["jvp"]] == ["system-out"] and float(cases["jvp"].get("time")) == 0.5
    assert "disagrees with dot: x[0] is 2.5" in cases["vjp"].find("failure").text
    assert cases["hvp"].find("error").get("message") == "TypeError: <no>"
    assert "no oracle" in cases["jacfwd"].find("failure").get("message")
    assert cases["jacrev"].find("skipped") is not None


def test_characters_that_xml_cannot_hold_are_replaced():
    assert ET.fromstring(to_junit([REPORT]))[0].get("name") == "file.py:<f> & ?co at point 1"
