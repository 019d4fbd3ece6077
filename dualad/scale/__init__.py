"""Many processes: chunks of one transform carried out by the workers of any executor.

For: ``executor=`` of the transforms. A transform makes a *job* (an object that is called with a range and gives what
that range makes) and says how its arguments are cut; ``driver.py`` sends the job once to each worker and the ranges one
by one, and puts the results in order. Not for: what a job computes, or running workers: executors are the user's.
"""

__all__: list[str] = []
