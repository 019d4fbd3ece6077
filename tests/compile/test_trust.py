"""Failures of the compiler's own: logged and done without by users, raised by our tests."""

from __future__ import annotations

import logging

import pytest

from dualad.compile import trust


def test_a_failure_is_raised_where_the_suite_runs():
    assert trust.STRICT
    with pytest.raises(KeyError, match="of ours"):
        trust.fall_back("finding loops", KeyError("of ours"))


def test_users_get_a_record_and_its_traceback_at_the_level_debug(monkeypatch, caplog):
    monkeypatch.setattr(trust, "STRICT", False)
    caplog.set_level(logging.DEBUG, "dualad")
    try:
        raise KeyError("of ours")
    except KeyError as error:
        trust.fall_back("finding loops", error)
    warning, details = caplog.records
    assert warning.levelno == logging.WARNING and "finding loops failed" in warning.message
    assert details.levelno == logging.DEBUG and details.exc_info[1].args == ("of ours",)
