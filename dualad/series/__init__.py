"""Taylor series as tensors: ``Series``, a level like those of ``Dual`` and ``Batched``, at any order.

For: the arithmetic of truncated power series, made of the JVP rules that operators have. Not for: the transforms that
open such a level (``jet.py``, ``directional.py``, ``taylor_ivp.py``).
"""
