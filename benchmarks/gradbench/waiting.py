"""Start a tool of GradBench's whose timed functions wait for their results: JAX returns before it has computed.

python waiting.py tools/jax/run.py
"""

import os
import runpy
import sys
import time

from gradbench import wrap

timed = wrap.multiple_runs


def waiting(**options):
    import jax  # PyTorch's tool is started by this file, too, and needs none

    return lambda function: timed(**options)(lambda argument: jax.block_until_ready(function(argument)))


if __name__ == "__main__":
    script = sys.argv[1]
    if "jax" in script:
        wrap.multiple_runs = waiting
    if "--processor-time" in sys.argv:
        time.perf_counter_ns = time.process_time_ns
    sys.argv, sys.path[0] = [script], os.path.dirname(script)
    runpy.run_path(script, run_name="__main__")
