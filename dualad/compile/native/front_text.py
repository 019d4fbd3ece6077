"""The text of ``front`` and ``bound``, the entries of a compiled function, which read what ``front.py`` says of calls.

``attempt`` is one signature: ``test`` looks at the arguments, ``unchanged`` at what was captured, ``any_nan`` at the
results. Parts of containers are held while the code runs, since another thread may change the containers. It is LLVM's
language with the words of ``runtime.py``. Not for: single groups of machine code (``stub_text.py``).
"""

from __future__ import annotations

__all__ = ["CAPTURES", "FRONT", "NAN", "SCAN", "TESTS"]

FRONT = """
define ptr @bound(ptr %self, ptr %args, i64 %count, ptr %names) {
start:
  %front = field ptr %self $front
  %none = icmp eq ptr %front, null
  br i1 %none, label %error, label %go
error:
  call void @PyErr_BadInternalCall()
  ret ptr null
go:
  call void @Py_IncRef(ptr %front)
  %answer = call ptr @PyObject_Vectorcall(ptr %front, ptr %args, i64 %count, ptr %names)
  call void @Py_DecRef(ptr %front)
  ret ptr %answer
}

define ptr @front(ptr %self, ptr %args, i64 %count, ptr %names) {
start:
  %value = alloca ptr
  %result = alloca ptr
  %plan = call ptr @PyBytes_AsString(ptr %self)
  %bad = icmp eq ptr %plan, null
  br i1 %bad, label %error, label %begin
error:
  ret ptr null
begin:
  %entries = word %plan 0
  %none = icmp eq i64 %entries, 0
  br i1 %none, label %miss, label %alone
alone:
  %watches = object %plan 2
  %open = call i64 @PyObject_Size(ptr %watches)
  %closed = icmp eq i64 %open, 0
  br i1 %closed, label %convention, label %miss
convention:
  %variable = object %plan 3
  store ptr null, ptr %value
  %got = call i32 @PyContextVar_Get(ptr %variable, ptr null, ptr %value)
  %fine = icmp eq i32 %got, 0
  br i1 %fine, label %known, label %error
known:
  %kinks = load ptr, ptr %value
  br label %next
next:
  %i = phi i64 [0, %known], [%i1, %try]
  %more = icmp slt i64 %i, %entries
  br i1 %more, label %try, label %unknown
try:
  %i1 = add i64 %i, 1
  %k = add i64 %i, 4
  %at = word %plan %k
  %entry = getelementptr i64, ptr %plan, i64 %at
  %done = call i1 @attempt(ptr %entry, ptr %kinks, ptr %args, i64 %count, ptr %names, ptr %result)
  br i1 %done, label %finish, label %next
finish:
  call void @Py_DecRef(ptr %kinks)
  %answer = load ptr, ptr %result
  ret ptr %answer
unknown:
  call void @Py_DecRef(ptr %kinks)
  br label %miss
miss:
  %missed = object %plan 1
  %asked = call ptr @PyObject_Vectorcall(ptr %missed, ptr %args, i64 %count, ptr %names)
  ret ptr %asked
}

; call the code of one signature, if this is its call: whether it was, and what came out
define internal i1 @attempt(ptr %e, ptr %kinks, ptr %args, i64 %count, ptr %names, ptr %result) {
start:
  %mine = object %e 0
  %c0 = icmp eq ptr %mine, %kinks
  br i1 %c0, label %places, label %no
places:
  %positional = word %e 1
  %c1 = icmp eq i64 %positional, %count
  br i1 %c1, label %keywords, label %no
keywords:
  %words = word %e 2
  %total = add i64 %positional, %words
  %nonames = icmp eq ptr %names, null
  br i1 %nonames, label %nowords, label %somewords
nowords:
  %c2 = icmp eq i64 %words, 0
  br i1 %c2, label %captured, label %no
somewords:
  %given = call i64 @PyObject_Size(ptr %names)
  %c3 = icmp eq i64 %given, %words
  br i1 %c3, label %spelled, label %no
spelled:
  %namesat = word %e 3
  br label %spell
spell:
  %n = phi i64 [0, %spelled], [%n1, %letter]
  %nnext = icmp slt i64 %n, %words
  br i1 %nnext, label %letter, label %captured
letter:
  %n1 = add i64 %n, 1
  %nat = add i64 %namesat, %n
  %expected = object %e %nat
  %name = call ptr @PyTuple_GetItem(ptr %names, i64 %n)
  %c4 = icmp eq ptr %name, %expected
  br i1 %c4, label %spell, label %no

captured:
  %room = word %e 6
  %slots = alloca ptr, i64 %room
  %sent = word %e 12
  %list = alloca ptr, i64 %sent
  br label %copy
copy:
  %c = phi i64 [0, %captured], [%cn, %copied]
  %cnext = icmp slt i64 %c, %total
  br i1 %cnext, label %copied, label %tests
copied:
  %cn = add i64 %c, 1
  %arg = object %args %c
  %cat = getelementptr ptr, ptr %slots, i64 %c
  store ptr %arg, ptr %cat
  br label %copy
tests:
  %testcount = word %e 4
  %testsat = word %e 5
  br label %next
next:
  %t = phi i64 [0, %tests], [%t1, %passed]
  %filled = phi i64 [%total, %tests], [%fuller, %passed]
  %tnext = icmp slt i64 %t, %testcount
  br i1 %tnext, label %test, label %unchanged
test:
  %t1 = add i64 %t, 1
  %toffset = mul i64 %t, 6
  %tat = add i64 %testsat, %toffset
  %declared = getelementptr i64, ptr %e, i64 %tat
  %found = call i64 @test(ptr %e, ptr %declared, ptr %slots)
  %failed = icmp slt i64 %found, 0
  br i1 %failed, label %otherwise, label %passed
passed:
  %fuller = add i64 %filled, %found
  br label %next
otherwise:
  call void @let_go(ptr %slots, i64 %total, i64 %filled)
  ret i1 0

unchanged:
  %same = call i1 @unchanged(ptr %e)
  br i1 %same, label %leaves, label %otherwise2
otherwise2:
  call void @let_go(ptr %slots, i64 %total, i64 %filled)
  ret i1 0

leaves:
  %leavesat = word %e 13
  br label %leaf
leaf:
  %l = phi i64 [0, %leaves], [%l1, %put]
  %lnext = icmp slt i64 %l, %sent
  br i1 %lnext, label %pick, label %run
pick:
  %l1 = add i64 %l, 1
  %loffset = mul i64 %l, 2
  %lat = add i64 %leavesat, %loffset
  %lword = getelementptr i64, ptr %e, i64 %lat
  %hidden = object %lword 0
  %lslot = word %lword 1
  %isslot = icmp eq ptr %hidden, null
  br i1 %isslot, label %slot, label %put
slot:
  %slotted = object %slots %lslot
  br label %put
put:
  %sending = phi ptr [%hidden, %pick], [%slotted, %slot]
  %put.at = getelementptr ptr, ptr %list, i64 %l
  store ptr %sending, ptr %put.at
  br label %leaf

run:
  %code = object %e 14
  %out = call ptr @PyObject_Vectorcall(ptr %code, ptr %list, i64 %sent, ptr null)
  call void @let_go(ptr %slots, i64 %total, i64 %filled)
  %none = icmp eq ptr %out, null
  br i1 %none, label %raised, label %ask
raised:
  call void @tidy()
  store ptr null, ptr %result
  ret i1 1
ask:
  %unsure = word %e 15
  %sure = icmp eq i64 %unsure, 0
  br i1 %sure, label %shape, label %look
look:
  %nan = call i32 @any_nan(ptr %out, i64 %unsure)
  switch i32 %nan, label %broken [i32 0, label %shape i32 1, label %again]
broken:
  call void @Py_DecRef(ptr %out)
  store ptr null, ptr %result
  ret i1 1
again:
  call void @Py_DecRef(ptr %out)
  %function = object %e 16
  %meant = call ptr @PyObject_Vectorcall(ptr %function, ptr %args, i64 %count, ptr %names)
  store ptr %meant, ptr %result
  ret i1 1
shape:
  %mode = word %e 17
  switch i64 %mode, label %tree [i64 0, label %tuple i64 1, label %single]
tuple:
  store ptr %out, ptr %result
  ret i1 1
single:
  %only = call ptr @PyTuple_GetItem(ptr %out, i64 0)
  call void @Py_IncRef(ptr %only)
  call void @Py_DecRef(ptr %out)
  store ptr %only, ptr %result
  ret i1 1
tree:
  %build = object %e 18
  store ptr %out, ptr %result
  %built = call ptr @PyObject_Vectorcall(ptr %build, ptr %result, i64 1, ptr null)
  call void @Py_DecRef(ptr %out)
  store ptr %built, ptr %result
  ret i1 1
no:
  ret i1 0
}

define internal void @let_go(ptr %slots, i64 %first, i64 %last) {
start:
  br label %next
next:
  %i = phi i64 [%first, %start], [%i1, %one]
  %more = icmp slt i64 %i, %last
  br i1 %more, label %one, label %done
one:
  %i1 = add i64 %i, 1
  %x = object %slots %i
  call void @Py_DecRef(ptr %x)
  br label %next
done:
  ret void
}

; take the package's frames out of the exception that is being raised
define internal void @tidy() {
start:
  %kind = alloca ptr
  %error = alloca ptr
  %trace = alloca ptr
  call void @PyErr_Fetch(ptr %kind, ptr %error, ptr %trace)
  call void @PyErr_NormalizeException(ptr %kind, ptr %error, ptr %trace)
  %e = load ptr, ptr %error
  %before = load ptr, ptr %trace
  %k = load ptr, ptr %kind
  %none = icmp eq ptr %e, null
  br i1 %none, label %asis, label %traced
traced:
  %untraced = icmp eq ptr %before, null
  br i1 %untraced, label %ask, label %set
set:
  %done = call i32 @PyException_SetTraceback(ptr %e, ptr %before)
  br label %ask
ask:
  %answer = call ptr @PyObject_Vectorcall(ptr @o_without_frames, ptr %error, i64 1, ptr null)
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %forget, label %fine
forget:
  call void @PyErr_Clear()
  br label %asis
fine:
  call void @Py_DecRef(ptr %answer)
  call void @Py_DecRef(ptr %before)
  %after = call ptr @PyException_GetTraceback(ptr %e)
  call void @PyErr_Restore(ptr %k, ptr %e, ptr %after)
  ret void
asis:
  call void @PyErr_Restore(ptr %k, ptr %e, ptr %before)
  ret void
}
"""

TESTS = """
; whether an argument is as the signature says: the number of slots that its parts fill, or -1
define internal i64 @test(ptr %e, ptr %t, ptr %slots) {
start:
  %op = word %t 0
  %place = word %t 1
  %x = object %slots %place
  %type = field ptr %x $type
  %thing = object %t 2
  %size = word %t 3
  %at = word %t 4
  switch i64 %op, label %no [
    i64 0, label %array i64 1, label %kind i64 2, label %same
    i64 3, label %parts i64 4, label %parts i64 5, label %parts
  ]
array:
  %isarray = icmp eq ptr %type, @o_ndarray
  br i1 %isarray, label %inside, label %no
inside:
  %dims = getelementptr i64, ptr %e, i64 %at
  %data = call ptr @data_of(ptr %x, ptr %thing, i64 %size, ptr %dims, i32 0)
  %fits = icmp ne ptr %data, null
  br i1 %fits, label %yes, label %no
kind:
  %iskind = icmp eq ptr %type, %thing
  br i1 %iskind, label %yes, label %no
same:
  %issame = icmp eq ptr %x, %thing
  br i1 %issame, label %yes, label %no
parts:
  %iscontainer = icmp eq ptr %type, %thing
  br i1 %iscontainer, label %measure, label %no
measure:
  %have = call i64 @PyObject_Size(ptr %x)
  %fitting = icmp eq i64 %have, %size
  br i1 %fitting, label %next, label %no
next:
  %i = phi i64 [0, %measure], [%i1, %hold]
  %more = icmp slt i64 %i, %size
  br i1 %more, label %part, label %all
part:
  %i1 = add i64 %i, 1
  switch i64 %op, label %tuple [i64 4, label %list i64 5, label %dict]
tuple:
  %p3 = call ptr @PyTuple_GetItem(ptr %x, i64 %i)
  br label %got
list:
  %p4 = call ptr @PyList_GetItem(ptr %x, i64 %i)
  br label %got
dict:
  %keyat = add i64 %at, %i
  %key = object %e %keyat
  %p5 = call ptr @PyDict_GetItemWithError(ptr %x, ptr %key)
  br label %got
got:
  %p = phi ptr [%p3, %tuple], [%p4, %list], [%p5, %dict]
  %first = word %t 5
  %missing = icmp eq ptr %p, null
  br i1 %missing, label %undo, label %hold
hold:
  call void @Py_IncRef(ptr %p)
  %to = add i64 %first, %i
  %slot = getelementptr ptr, ptr %slots, i64 %to
  store ptr %p, ptr %slot
  br label %next
undo:
  call void @PyErr_Clear()
  %last = add i64 %first, %i
  call void @let_go(ptr %slots, i64 %first, i64 %last)
  ret i64 -1
all:
  ret i64 %size
yes:
  ret i64 0
no:
  ret i64 -1
}
"""

CAPTURES = """
; whether everything that was captured is as it was; what is not the same object is looked at in Python
define internal i1 @unchanged(ptr %e) {
start:
  %count = word %e 7
  %at = word %e 8
  br label %next
next:
  %i = phi i64 [0, %start], [%i1, %same]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %contents
look:
  %i1 = add i64 %i, 1
  %offset = mul i64 %i, 4
  %entry = add i64 %at, %offset
  %c = getelementptr i64, ptr %e, i64 %entry
  %op = word %c 0
  %holder = object %c 1
  %number = word %c 2
  %key = object %c 2
  %value = object %c 3
  switch i64 %op, label %ask [
    i64 0, label %cell i64 1, label %dict i64 2, label %list i64 3, label %length
    i64 4, label %code i64 5, label %defaults
  ]
cell:
  %inside = call ptr @PyCell_Get(ptr %holder)
  call void @Py_DecRef(ptr %inside)
  br label %compare
dict:
  %item = call ptr @PyDict_GetItemWithError(ptr %holder, ptr %key)
  br label %compare
list:
  %entry2 = call ptr @PyList_GetItem(ptr %holder, i64 %number)
  br label %compare
code:
  %body = call ptr @PyFunction_GetCode(ptr %holder)
  br label %compare
defaults:
  %tuple = call ptr @PyFunction_GetDefaults(ptr %holder)
  br label %compare
compare:
  %now = phi ptr [%inside, %cell], [%item, %dict], [%entry2, %list], [%body, %code], [%tuple, %defaults]
  %is = icmp eq ptr %now, %value
  br i1 %is, label %same, label %ask
length:
  %size = call i64 @PyObject_Size(ptr %holder)
  %fits = icmp eq i64 %size, %number
  br i1 %fits, label %same, label %ask
same:
  br label %next

contents:
  %arrays = word %e 9
  %arraysat = word %e 10
  br label %another
another:
  %j = phi i64 [0, %contents], [%j1, %compared]
  %again = icmp slt i64 %j, %arrays
  br i1 %again, label %array, label %yes
array:
  %j1 = add i64 %j, 1
  %joffset = mul i64 %j, 6
  %jentry = add i64 %arraysat, %joffset
  %a = getelementptr i64, ptr %e, i64 %jentry
  %x = object %a 0
  %descr = object %a 1
  %nd = word %a 2
  %dimsat = word %a 3
  %bytes = word %a 4
  %kept = object %a 5
  %dims = getelementptr i64, ptr %e, i64 %dimsat
  %data = call ptr @data_of(ptr %x, ptr %descr, i64 %nd, ptr %dims, i32 1)
  %moved = icmp eq ptr %data, null
  br i1 %moved, label %ask, label %compared
compared:
  %difference = call i32 @lib_memcmp(ptr %data, ptr %kept, i64 %bytes)
  %equal = icmp eq i32 %difference, 0
  br i1 %equal, label %another, label %ask

ask:
  call void @PyErr_Clear()
  %question = object %e 11
  %answer = call ptr @PyObject_Vectorcall(ptr %question, ptr null, i64 0, ptr null)
  %none = icmp eq ptr %answer, null
  br i1 %none, label %error, label %judge
judge:
  %truth = call i32 @PyObject_IsTrue(ptr %answer)
  call void @Py_DecRef(ptr %answer)
  %true = icmp eq i32 %truth, 1
  ret i1 %true
error:
  call void @PyErr_Clear()
  ret i1 0
yes:
  ret i1 1
}
"""

NAN = """
; whether one of the first results has a NaN in it; -1 for an exception
define internal i32 @any_nan(ptr %out, i64 %count) {
start:
  %slot = alloca ptr
  br label %next
next:
  %i = phi i64 [0, %start], [%i1, %not]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %none
look:
  %i1 = add i64 %i, 1
  %x = call ptr @PyTuple_GetItem(ptr %out, i64 %i)
  %lost = icmp eq ptr %x, null
  br i1 %lost, label %error, label %typed
typed:
  %type = field ptr %x $type
  %isarray = icmp eq ptr %type, @o_ndarray
  br i1 %isarray, label %array, label %single
single:
  %isdouble = icmp eq ptr %type, @o_float64
  br i1 %isdouble, label %double, label %ask
double:
  %number = field double %x $head
  %isnan = fcmp uno double %number, %number
  br i1 %isnan, label %found, label %not
array:
  %descr = field ptr %x $descr
  %flags = field i32 %x $flags
  %laid = and i32 %flags, 257
  %simple = icmp eq i32 %laid, 257
  %doubles = icmp eq ptr %descr, @o_dtype_float64
  %known = and i1 %simple, %doubles
  br i1 %known, label %size, label %ask
size:
  %nd32 = field i32 %x $nd
  %nd = sext i32 %nd32 to i64
  %dims = field ptr %x $dims
  %data = field ptr %x $head
  br label %multiply
multiply:
  %k = phi i64 [0, %size], [%k1, %axis]
  %entries = phi i64 [1, %size], [%product, %axis]
  %axes = icmp slt i64 %k, %nd
  br i1 %axes, label %axis, label %scan
axis:
  %k1 = add i64 %k, 1
  %length = word %dims %k
  %product = mul i64 %entries, %length
  br label %multiply
scan:
  %bad = call i1 @nan_in(ptr %data, i64 %entries)
  br i1 %bad, label %found, label %not
ask:
  store ptr %x, ptr %slot
  %answer = call ptr @PyObject_Vectorcall(ptr @o_has_nan, ptr %slot, i64 1, ptr null)
  %noanswer = icmp eq ptr %answer, null
  br i1 %noanswer, label %error, label %judge
judge:
  %truth = call i32 @PyObject_IsTrue(ptr %answer)
  call void @Py_DecRef(ptr %answer)
  switch i32 %truth, label %error [i32 0, label %not i32 1, label %found]
not:
  br label %next
none:
  ret i32 0
found:
  ret i32 1
error:
  ret i32 -1
}
"""

#: 64 numbers a turn: LLVM is asked to do nothing about this code, so each turn costs more than it has to
_SIXTEEN = """\
  %at{i} = getelementptr double, ptr %at, i64 {first}
  %x{i} = load <8 x double>, ptr %at{i}, align 8
  %to{i} = getelementptr double, ptr %at{i}, i64 8
  %y{i} = load <8 x double>, ptr %to{i}, align 8
  %un{i} = fcmp uno <8 x double> %x{i}, %y{i}
  %mask{i} = sext <8 x i1> %un{i} to <8 x i64>"""

SCAN = """
declare i1 @llvm.vector.reduce.or.v8i1(<8 x i1>)
define internal i1 @nan_in(ptr %data, i64 %entries) {
start:
  %most = sub i64 %entries, 64
  br label %many
many:
  %p = phi i64 [0, %start], [%p1, %block]
  %long = icmp sle i64 %p, %most
  br i1 %long, label %block, label %eights
block:
  %p1 = add i64 %p, 64
  %at = getelementptr double, ptr %data, i64 %p
$sixteens
  %left = or <8 x i64> %mask0, %mask1
  %right = or <8 x i64> %mask2, %mask3
  %both = or <8 x i64> %left, %right
  %lanes = icmp ne <8 x i64> %both, zeroinitializer
  %any = call i1 @llvm.vector.reduce.or.v8i1(<8 x i1> %lanes)
  br i1 %any, label %found, label %many
eights:
  %q = phi i64 [%p, %many], [%q1, %eight]
  %q1 = add i64 %q, 8
  %short = icmp sle i64 %q1, %entries
  br i1 %short, label %eight, label %rest
eight:
  %here = getelementptr double, ptr %data, i64 %q
  %x = load <8 x double>, ptr %here, align 8
  %unordered = fcmp uno <8 x double> %x, %x
  %one = call i1 @llvm.vector.reduce.or.v8i1(<8 x i1> %unordered)
  br i1 %one, label %found, label %eights
rest:
  %r = phi i64 [%q, %eights], [%r1, %last]
  %more = icmp slt i64 %r, %entries
  br i1 %more, label %last, label %none
last:
  %r1 = add i64 %r, 1
  %there = getelementptr double, ptr %data, i64 %r
  %y = load double, ptr %there
  %bad = fcmp uno double %y, %y
  br i1 %bad, label %found, label %rest
found:
  ret i1 1
none:
  ret i1 0
}
""".replace("$sixteens", "\n".join([_SIXTEEN.format(i=i, first=16 * i) for i in range(4)]))
