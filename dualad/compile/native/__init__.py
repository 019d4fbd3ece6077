"""Machine code for compiled functions, through llvmlite, where it is installed.

For: groups of equations that are known here as one function of machine code. Not for: other operators. They
stay Python and NumPy source (``../numpy_source.py``), which is also the reference.
"""
