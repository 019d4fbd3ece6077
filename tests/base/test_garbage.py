"""The garbage collector is held back, and goes on afterwards: after errors, in forks, and as users have set it."""

from __future__ import annotations

import gc
import os

import numpy as np
import pytest

import dualad as da
from dualad.base.garbage import less_collection, no_collection


def test_it_goes_on_after_nests_and_errors():
    with pytest.raises(KeyError), no_collection():
        with no_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()


def test_it_stays_off_where_the_user_has_disabled_it():
    gc.disable()
    try:
        with no_collection():
            pass
        assert not gc.isenabled()
        assert da.jit(np.sin)(0.5) == pytest.approx(np.sin(0.5)) and not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_process_that_is_forked_meanwhile_collects():
    with no_collection():
        child = os.fork()
        if not child:
            os._exit(0 if gc.isenabled() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 and gc.isenabled()


def test_it_searches_less_often_and_keeps_the_users_threshold():
    usual = gc.get_threshold()
    with less_collection():
        assert gc.isenabled() and gc.get_threshold()[0] > usual[0]
    assert gc.get_threshold() == usual
    try:
        with less_collection():
            gc.set_threshold(900, 10, 10)
        assert gc.get_threshold() == (900, 10, 10)
    finally:
        gc.set_threshold(*usual)
