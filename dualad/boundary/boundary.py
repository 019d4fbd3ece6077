"""The boundary between a transform and the user's function.

For: calling the function so that an error of ours which NumPy has wrapped ("setting an array element with a
sequence.") comes out as ours, chained to NumPy's, with the user's line. Not for: errors that are the user's own.
"""

from __future__ import annotations

from contextvars import ContextVar
from types import FrameType

from ..base.frames import PACKAGE, is_users, users_line_of
from ..base.log import log
from ..core.above import ABOVE
from ..core.contexts import StartAgain, in_use, watching
from ..core.tracer import Tracer, tracer_in
from ..errors import (
    BranchError,
    ConversionError,
    DifferentValueError,
    DualadError,
    ForeignArrayError,
    InPlaceError,
    PlainBufferError,
    RuleMissingError,
    UnsupportedError,
    noted,
)
from ..memory import lines
from .libraries import about_library, refusal_behind
from .rerun import Rerun
from .swallowed import Refusals, SwallowedRefusals

__all__ = ["run", "running"]

#: whether a transform is running a function of the user's here; per thread and per asynchronous task
running: ContextVar[bool] = ContextVar("dualad_running", default=False)

#: how often a run has shown that its function has to be lifted, or should be
lifted = 0

_AT = "\n  At: "
_READS_PLAIN = "its code is compiled, or goes through np.asarray, and reads plain arrays only"


def run(f, args, kwargs, writable=False):
    """Call ``f``; once more where another run may have what this one is refused.

    That is arguments that can be written to (at once with ``writable``), and, around the outermost transform, the names
    of its modules lifted: at once where an earlier call has shown that they have to be.
    """
    again = None
    if kwargs or hasattr(f, "filled"):
        again = Rerun(f, args, kwargs)
    else:
        for a in args:  # most often all are tensors of one transform
            if not isinstance(a, Tracer) or a.level is not args[0].level:
                again = Rerun(f, args, kwargs)
                break
    lift = None if running.get() else ABOVE.lift(f)
    if again is not None and again.states.generators:
        f, args, kwargs = again.first()
    try:
        if lift is None:
            out = _run_writable(f, args, kwargs, again, writable)
        else:
            with lift:
                out = _run_writable(f, args, kwargs, again, writable)
        if again is not None:
            again.release()
        return out
    except (Exception, SwallowedRefusals) as error:
        if running.get() or not (isinstance(error, SwallowedRefusals) or _may_be_cured(error) or _is_faster(lift)):
            raise
        first = error
    return _run_again_lifted(f, args, kwargs, again or Rerun(f, args, kwargs), first, lift)


def _run_again_lifted(f, args, kwargs, again, first, lift):
    """Call ``f`` again, lifted, and once more where that shows that other modules have to be, too; or give up."""
    global lifted
    if lift is not None and (whole := lift.whole()) is not None and again.rewind():
        before = lines.marks
        try:
            with whole:
                return _run_again(again)
        except (Exception, SwallowedRefusals) as error:
            if not (isinstance(error, SwallowedRefusals) or _may_be_cured(error) or _is_faster(whole)):
                raise
            first, lift = error, whole
        finally:
            if lines.marks == before:
                whole.unmark()
    if _is_faster(lift) and again.rewind():
        lift.forget()
        try:
            with lift.unlifted():
                return _run_again(again)
        except (Exception, SwallowedRefusals) as error:
            if not (isinstance(error, SwallowedRefusals) or _may_be_cured(error)):
                raise
            first, lift = error, None
    around = noted.get()
    before = len(around or ())
    known, error = lift, first
    for _ in range(3):
        lift = ABOVE.lift_after(f, error, lift)
        if lift is None or not again.rewind():
            break
        try:
            with lift:
                out = _run_again(again)
        except (Exception, SwallowedRefusals) as other:
            error = other
        else:
            lift.learn()
            lifted += 1
            if around is not None:
                del around[before:]
            return out
    if isinstance(first, SwallowedRefusals):
        return first.tell()
    if (block := known and known.unlifted()) is not None and again.rewind():
        with block:  # findings about this code may not hold for these arguments
            try:
                return _run_again(again)
            except (ConversionError, PlainBufferError):
                raise first from None
            except SwallowedRefusals as swallowed:
                return swallowed.tell()
    is_deep = isinstance(first, (ConversionError, PlainBufferError)) and first.why != _READS_PLAIN
    if is_deep and isinstance(error, (BranchError, RuleMissingError, UnsupportedError)):
        raise error from None  # it names a gap, or asks for a value, that lifting has not cured
    raise first


def _is_faster(lift):
    """Whether a block lifts code that is right without it."""
    return lift is not None and not lift.is_needed


#: what may be no refusal in lifted code
_CURED = (ConversionError, DifferentValueError, InPlaceError, PlainBufferError, UnsupportedError)
#: names by which code tests what it was given
_TESTS = frozenset({"dtype", "isinstance", "isscalar", "issubclass", "issubdtype", "type"})


def _may_be_cured(error: BaseException) -> bool:
    """Whether an error comes from what lifted code may have, from NumPy, from SciPy or from code that tests types.

    The first two may have met an array of objects that NumPy made of tensors, which C code refuses in its own words.
    """
    if isinstance(refusal := refusal_behind(error), _CURED):
        return True
    code = _entries(error)[-1].tb_frame.f_code
    if not is_users(code.co_filename):
        return refusal is None and not code.co_filename.startswith(PACKAGE)
    return not _TESTS.isdisjoint(code.co_names)


def _run_writable(f, args, kwargs, again, writable):
    """Call ``f``; once more with arguments that can be written to, where it is refused that (or at once with them)."""
    if again is None or not again.arrays:  # for which a buffer could be put
        return _run(f, args, kwargs)
    if writable:
        return _run_again(again)
    around = noted.get()
    before = len(around or ())
    try:
        return _run(f, args, kwargs)
    except (ConversionError, InPlaceError, PlainBufferError) as error:
        refusal = error
    except StartAgain:
        again.restore()
        raise
    log("DAL007", "run again with arguments that can be written to: %s", refusal.what)
    try:
        out = _run_again(again)
    except InPlaceError as error:
        raise error from refusal
    except Exception as error:
        raise refusal from error
    if around is not None:
        del around[before:]  # what the first run was refused is forgotten
    return out


def _run_again(again):
    out = _run(*again.call())
    again.check()
    return out


def _run(f, args, kwargs):
    """Call ``f``; re-raise a refusal of ours that a foreign library has wrapped in an error of its own."""
    watch = watching.get() if in_use else None
    look = None if watch is None or running.get() else watch.calling(f, args, kwargs)
    inside = running.set(True)
    refusals, returned = Refusals(), False
    around = noted.set(refusals)
    try:
        out = f(*args, **kwargs)
        if look is not None:
            look(out)
        if refusals and inside.old_value is not True and (caught := refusals.caught()):
            raise SwallowedRefusals(out, *caught[0])
        returned = True
        return out
    except (ConversionError, ForeignArrayError, PlainBufferError) as ours:
        if ours.told:
            raise
        # `out[:] = x` asks the tensor for a plain array directly: the refusal is ours, but knows no line yet.
        better = about_library(ours) or _about_sparse(ours) or _about_objects(ours) or _about_scipy(ours)
        raise _with_users_line(better or ours, ours).with_traceback(ours.__traceback__) from None
    except (InPlaceError, UnsupportedError) as ours:  # NumPy's, into a target that it made of an object array
        better = about_library(ours) or (_about_objects(ours) if isinstance(ours, InPlaceError) else None)
        if better is None:
            raise
        raise _with_users_line(better, ours) from ours
    except BranchError as ours:
        better = None if ours.told else _about_scipy(ours)
        if better is None:
            raise
        raise _with_users_line(better, ours) from ours
    except DualadError:
        raise
    except (TypeError, ValueError, IndexError, NotImplementedError, AttributeError, RuntimeError) as foreign:
        behind = refusal_behind(foreign)
        if behind is not None and behind.told:
            raise behind from None
        if behind is not None:
            said = about_library(foreign) or _about_scipy(foreign) or ABOVE.objects(foreign) or behind
        else:
            said = next((e for about in _ABOUT if (e := about(foreign)) is not None), None)
        if said is None:
            raise
        raise _with_users_line(said, foreign) from foreign
    except Exception as foreign:  # of a library's own kind
        if (python := getattr(f, "py_func", None)) is not None:  # numba's, which has found no code for tensors
            return _run(python, args, kwargs)
        # MINPACK says only that something is wrong, and C that an error was set: what they were refused is noted.
        ours = about_library(foreign) or (_about_scipy(foreign) if refusals else None)
        if ours is None:
            raise
        raise _with_users_line(ours, foreign) from foreign
    finally:
        running.reset(inside)
        noted.reset(around)
        if refusals:
            refusals.settle(returned)


def _with_users_line(words: DualadError, error: BaseException) -> DualadError:
    """Return the words for an error with the user's line; transforms around this one leave them as they are."""
    last = users_line_of(error)
    said = type(words)(f"{words.what}{_AT}{last.filename}:{last.lineno}: {last.line}", words.why, words.instead)
    said.told = True
    return said


def _about_dropped(error: BaseException) -> DualadError | None:
    """The refusal that compiled code was given at the instruction that failed, and dropped for an error of its own."""
    *_, last = _entries(error)
    for refusal, places in reversed(noted.get() or []):
        if places and places[0] == (last.tb_frame, last.tb_lineno):
            return _about_scipy(error) or refusal
    return None


def _about_scipy(error: BaseException) -> DualadError | None:
    """Say what to write when a function of SciPy met a tensor that ``dualad.scipy`` has too."""
    mirror = ABOVE.mirrored(error, _refused_in(error))
    if mirror is None:
        return None
    text = error.what.partition(_AT)[0] if isinstance(error, DualadError) else str(error).splitlines()[0]
    return ConversionError(
        f"a function of SciPy was given a tensor: {text}",
        _READS_PLAIN,
        mirror if " " in mirror else f"use {mirror}, which is the same function and takes both",
    )


def _refused_in(error: BaseException) -> list[FrameType]:
    """Return the frames, innermost first, in which the refusal behind an error was made.

    C goes on with an error that is set, and Python meets it anywhere: in the user's function that a solver calls next.
    """
    made, cause = noted.get() or [], refusal_behind(error)
    for refusal, places in reversed(made):
        if refusal is cause or cause is None:
            return [frame for frame, _ in places]
    return []


def _about_objects(error: BaseException) -> DualadError | None:
    """Say what to write when NumPy itself computed with an object array and could not."""
    better = ABOVE.objects(error)
    return better and (_about_scipy(error) or better)


def _about_sparse(error: BaseException) -> DualadError | None:
    """Say what to write when a sparse matrix of SciPy met a tensor, in an operation that SciPy does by itself."""
    return ABOVE.sparse(error)


def _about_compiled(error: BaseException) -> DualadError | None:
    """Say what to write when a function of SciPy that had a tensor in its hands, or was refused a number, failed.

    C may drop the refusal and go on with a number of its own, of which SciPy then says something.
    """
    refused = [places[0][0] for _, places in noted.get() or [] if places]
    for entry in _entries(error):
        frame = entry.tb_frame
        if (frame.f_globals.get("__name__") or "").startswith("scipy.") and (
            tracer_in(*frame.f_locals.values()) is not None or any([frame is other for other in refused])
        ):
            return _about_scipy(error)
    return None


def _entries(error: BaseException) -> list:
    """Return the entries of an exception's traceback, outermost first."""
    entries, entry = [], error.__traceback__
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    return entries


_ABOUT = (about_library, _about_sparse, _about_dropped, _about_objects, _about_compiled)
