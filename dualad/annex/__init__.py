"""Small rooms that lean on the transforms and on nothing else: collectives, linear operators, uncertainty.

For: what has one file. Not for: what has grown into a package.
"""
