"""The version, in the one place that says it: the package, its metadata and the command line read it here.

Not for anything else.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
