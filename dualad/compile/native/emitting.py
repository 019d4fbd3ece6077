"""A process that makes object code of LLVM's text until its input ends: where LLVM dies or stalls, nothing else does.

For: ``apart.py``, which runs this file; it imports llvmlite alone. A request is the lengths of the processor's name, of
its features and of the text, the level, and these; an answer whether it worked, the length of what follows, and the
names that the code refers to with the code, or the error. Not for: when it is asked (``apart.py``).
"""

from __future__ import annotations

import importlib
import os
import queue
import signal
import struct
import sys
import threading
from typing import Any, BinaryIO

__all__ = ["ANSWER", "REQUEST", "main"]

#: lengths of processor, features and text, and the level
REQUEST = struct.Struct("<QQQQ")
#: whether it worked, and the length of what follows
ANSWER = struct.Struct("<BQ")


def main() -> None:
    """Answer requests; end when nobody asks any more, or when who asks has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who asks is interrupted, and decides
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    folder, idle = sys.argv[1:]
    sys.path.append(folder)
    llvm = importlib.import_module("llvmlite.binding")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    requests: queue.SimpleQueue = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    out.write(ANSWER.pack(1, 0))
    out.flush()
    machines: dict[tuple, Any] = {}
    while True:
        try:
            cpu, features, text, level = requests.get(timeout=float(idle))
        except queue.Empty:
            os._exit(0)
        try:
            machine = machines.get((cpu, features, level))
            if machine is None:
                target = llvm.Target.from_default_triple()
                machine = target.create_target_machine(cpu=cpu, features=features, opt=level, jit=True)
                machines[cpu, features, level] = machine
            module = llvm.parse_assembly(text)
            module.verify()
            needed = [v.name for v in (*module.functions, *module.global_variables) if v.is_declaration]
            answer = "\n".join(needed).encode() + b"\0" + machine.emit_object(module)
            out.write(ANSWER.pack(1, len(answer)) + answer)
        except RuntimeError as error:
            answer = str(error).encode()
            out.write(ANSWER.pack(0, len(answer)) + answer)
        out.flush()


def _listen(requests: queue.SimpleQueue) -> None:
    """Take requests; end the process with its input, also while LLVM is at work."""
    source: BinaryIO = sys.stdin.buffer
    while len(head := source.read(REQUEST.size)) == REQUEST.size:
        *lengths, level = REQUEST.unpack(head)
        cpu, features, text = [source.read(n).decode() for n in lengths]
        requests.put((cpu, features, text, level))
    os._exit(0)


if __name__ == "__main__":
    main()
