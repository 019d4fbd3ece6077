"""The command line: ``dualad check``, ``jacobian``, ``trace``, ``ops``; ``main.py`` holds the parser.

Not for anything a program would import: each command is a thin layer over a function of the library.
"""
