"""The text of ``stub``, the entry of a group: what ``stub.py`` says of arguments and results is seen and done here.

It is LLVM's language with the words of ``runtime.py``. Not for: calls of what ``jit`` returns (``front_text.py``).
"""

from __future__ import annotations

__all__ = ["ARGUMENTS", "STUB"]

ARGUMENTS = """
; the numbers of an ndarray, if its dtype, lengths and flags are as wanted
define internal ptr @data_of(ptr %x, ptr %descr, i64 %nd, ptr %dims, i32 %wanted) {
start:
  %d = field ptr %x $descr
  %same = icmp eq ptr %d, %descr
  br i1 %same, label %axes, label %no
axes:
  %n32 = field i32 %x $nd
  %n = sext i32 %n32 to i64
  %samen = icmp eq i64 %n, %nd
  br i1 %samen, label %flags, label %no
flags:
  %f = field i32 %x $flags
  %g = and i32 %f, %wanted
  %ok = icmp eq i32 %g, %wanted
  br i1 %ok, label %lengths, label %no
lengths:
  %l = field ptr %x $dims
  br label %next
next:
  %i = phi i64 [0, %lengths], [%j, %length]
  %more = icmp slt i64 %i, %nd
  br i1 %more, label %length, label %yes
length:
  %a = word %l %i
  %b = word %dims %i
  %j = add i64 %i, 1
  %eq = icmp eq i64 %a, %b
  br i1 %eq, label %next, label %no
yes:
  %v = field ptr %x $head
  ret ptr %v
no:
  ret ptr null
}

; where the numbers of an argument are, if it is as declared: READ says what is in a declaration
define internal ptr @argument(ptr %x, ptr %plan, ptr %read, ptr %slot) {
start:
  %kind = word %read 0
  %type = field ptr %x $type
  %is = icmp eq ptr %type, @o_ndarray
  br i1 %is, label %array, label %scalar
array:
  %descr = object %read 1
  %nd = word %read 2
  %at = word %read 3
  %dims = getelementptr i64, ptr %plan, i64 %at
  %data = call ptr @data_of(ptr %x, ptr %descr, i64 %nd, ptr %dims, i32 257)
  ret ptr %data
scalar:
  %one = object %read 4
  %other = object %read 5
  %isone = icmp eq ptr %type, %one
  %isother = icmp eq ptr %type, %other
  %exact = or i1 %isone, %isother
  br i1 %exact, label %inside, label %python
inside:
  %value = getelementptr i8, ptr %x, i64 $head
  ret ptr %value
python:
  switch i64 %kind, label %no [i64 2, label %truth i64 3, label %whole]
truth:
  %yes = icmp eq ptr %x, @o_true
  %nope = icmp eq ptr %x, @o_false
  %bool = or i1 %yes, %nope
  br i1 %bool, label %istruth, label %no
istruth:
  %byte = zext i1 %yes to i8
  store i8 %byte, ptr %slot
  ret ptr %slot
whole:
  %isint = icmp eq ptr %type, @o_int
  br i1 %isint, label %convert, label %no
convert:
  %n = call i64 @PyLong_AsLongLong(ptr %x)
  %maybe = icmp eq i64 %n, -1
  br i1 %maybe, label %ask, label %sure
ask:
  %error = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %error, null
  br i1 %fine, label %sure, label %big
big:
  call void @PyErr_Clear()
  ret ptr null
sure:
  store i64 %n, ptr %slot
  ret ptr %slot
no:
  ret ptr null
}
"""

STUB = """
define ptr @stub(ptr %self, ptr %args, i64 %count) {
start:
  %plan = call ptr @PyBytes_AsString(ptr %self)
  %bad = icmp eq ptr %plan, null
  br i1 %bad, label %error, label %begin
error:
  ret ptr null
begin:
  %reads = word %plan 0
  %writes = word %plan 1
  %both = add i64 %reads, %writes
  %in = alloca ptr, i64 %reads
  %out = alloca ptr, i64 %writes
  %made = alloca ptr, i64 %writes
  %slots = alloca i64, i64 %both
  %right = icmp eq i64 %count, %reads
  br i1 %right, label %read, label %miss

read:
  %i = phi i64 [0, %begin], [%i1, %take], [%i1, %took]
  %inext = icmp slt i64 %i, %reads
  br i1 %inext, label %take, label %clear
take:
  %i1 = add i64 %i, 1
  %iat = mul i64 %i, 6
  %iplan = add i64 %iat, 8
  %declared = getelementptr i64, ptr %plan, i64 %iplan
  %kind = word %declared 0
  %ignored = icmp eq i64 %kind, 0
  br i1 %ignored, label %read, label %look
look:
  %x = object %args %i
  %slot = getelementptr i64, ptr %slots, i64 %i
  %data = call ptr @argument(ptr %x, ptr %plan, ptr %declared, ptr %slot)
  %other = icmp eq ptr %data, null
  br i1 %other, label %miss, label %took
took:
  %inat = getelementptr ptr, ptr %in, i64 %i
  store ptr %data, ptr %inat
  br label %read

clear:
  %c = phi i64 [0, %read], [%c1, %cleared]
  %cnext = icmp slt i64 %c, %writes
  br i1 %cnext, label %cleared, label %prepare
cleared:
  %c1 = add i64 %c, 1
  %cat = getelementptr ptr, ptr %made, i64 %c
  store ptr null, ptr %cat
  br label %clear

prepare:
  %firstwrite = word %plan 6
  br label %write
write:
  %w = phi i64 [0, %prepare], [%w1, %wrote]
  %wnext = icmp slt i64 %w, %writes
  br i1 %wnext, label %result, label %memory
result:
  %w1 = add i64 %w, 1
  %wat = mul i64 %w, 3
  %wplan = add i64 %wat, %firstwrite
  %wdeclared = getelementptr i64, ptr %plan, i64 %wplan
  %wdescr = object %wdeclared 0
  %wnd = word %wdeclared 1
  %wdimsat = word %wdeclared 2
  %wslot = add i64 %reads, %w
  %wnumber = getelementptr i64, ptr %slots, i64 %wslot
  %single = icmp eq i64 %wnd, 0
  br i1 %single, label %wrote, label %array
array:
  %wdims = getelementptr i64, ptr %plan, i64 %wdimsat
  call void @Py_IncRef(ptr %wdescr)
  %wnd32 = trunc i64 %wnd to i32
  %new = call ptr @PyArray_NewFromDescr(ptr @o_ndarray, ptr %wdescr, i32 %wnd32, ptr %wdims,
    ptr null, ptr null, i32 0, ptr null)
  %newat = getelementptr ptr, ptr %made, i64 %w
  store ptr %new, ptr %newat
  %nonew = icmp eq ptr %new, null
  br i1 %nonew, label %fail, label %newdata
newdata:
  %wdata = field ptr %new $head
  br label %wrote
wrote:
  %to = phi ptr [%wnumber, %result], [%wdata, %newdata]
  %outat = getelementptr ptr, ptr %out, i64 %w
  store ptr %to, ptr %outat
  br label %write

memory:
  %scratch = word %plan 3
  %noscratch = icmp eq i64 %scratch, 0
  br i1 %noscratch, label %ready, label %allocate
allocate:
  %room = call ptr @PyMem_RawMalloc(i64 %scratch)
  %noroom = icmp eq ptr %room, null
  br i1 %noroom, label %full, label %ready
full:
  %nomemory = call ptr @PyErr_NoMemory()
  br label %fail
ready:
  %work = phi ptr [null, %memory], [%room, %allocate]
  %body = object %plan 2
  %releases = word %plan 4
  %held = icmp eq i64 %releases, 0
  br i1 %held, label %quick, label %long
quick:
  %status1 = call i32 %body(ptr %in, ptr %out, ptr %work)
  br label %ran
long:
  %state = call ptr @PyEval_SaveThread()
  %status2 = call i32 %body(ptr %in, ptr %out, ptr %work)
  call void @PyEval_RestoreThread(ptr %state)
  br label %ran
ran:
  %status = phi i32 [%status1, %quick], [%status2, %long]
  %worked = icmp ne ptr %work, null
  br i1 %worked, label %free, label %judge
free:
  call void @PyMem_RawFree(ptr %work)
  br label %judge
judge:
  switch i32 %status, label %fail [i32 0, label %scalars i32 2, label %again]

again:
  %a = phi i64 [0, %judge], [%a1, %lose]
  %anext = icmp slt i64 %a, %writes
  br i1 %anext, label %lose, label %elsewhere
lose:
  %a1 = add i64 %a, 1
  %useless = object %made %a
  call void @Py_DecRef(ptr %useless)
  br label %again
elsewhere:
  %numpy = object %plan 7
  %computed = call ptr @PyObject_Vectorcall(ptr %numpy, ptr %args, i64 %count, ptr null)
  ret ptr %computed

scalars:
  %s = phi i64 [0, %judge], [%s1, %scalar], [%s1, %number]
  %snext = icmp slt i64 %s, %writes
  br i1 %snext, label %scalar, label %pack
scalar:
  %s1 = add i64 %s, 1
  %sat = mul i64 %s, 3
  %splan = add i64 %sat, %firstwrite
  %sdeclared = getelementptr i64, ptr %plan, i64 %splan
  %snd = word %sdeclared 1
  %issingle = icmp eq i64 %snd, 0
  br i1 %issingle, label %box, label %scalars
box:
  %sdescr = object %sdeclared 0
  %sslot = add i64 %reads, %s
  %snumber = getelementptr i64, ptr %slots, i64 %sslot
  %boxed = call ptr @PyArray_Scalar(ptr %snumber, ptr %sdescr, ptr null)
  %unboxed = icmp eq ptr %boxed, null
  br i1 %unboxed, label %fail, label %number
number:
  %boxat = getelementptr ptr, ptr %made, i64 %s
  store ptr %boxed, ptr %boxat
  br label %scalars

pack:
  %tuple = call ptr @PyTuple_New(i64 %writes)
  %notuple = icmp eq ptr %tuple, null
  br i1 %notuple, label %fail, label %fill
fill:
  %t = phi i64 [0, %pack], [%t1, %filled]
  %tnext = icmp slt i64 %t, %writes
  br i1 %tnext, label %filled, label %done
filled:
  %t1 = add i64 %t, 1
  %thing = object %made %t
  %set = call i32 @PyTuple_SetItem(ptr %tuple, i64 %t, ptr %thing)
  br label %fill
done:
  ret ptr %tuple

fail:
  br label %drop
drop:
  %f = phi i64 [0, %fail], [%f1, %dropped]
  %fnext = icmp slt i64 %f, %writes
  br i1 %fnext, label %dropped, label %error
dropped:
  %f1 = add i64 %f, 1
  %lost = object %made %f
  call void @Py_DecRef(ptr %lost)
  br label %drop
miss:
  %missed = object %plan 5
  %answer = call ptr @PyObject_Vectorcall(ptr %missed, ptr %args, i64 %count, ptr null)
  ret ptr %answer
}
"""
