"""Terminal pictures of known matrices."""

from __future__ import annotations

import numpy as np
import pytest

from dualad.cli.spy import choose_style, spy


def test_identity_in_braille():
    # 4 x 2 dots a character: the diagonal of an 8 x 8 matrix takes 2 x 4 characters.
    lines = spy(np.eye(8)).splitlines()
    assert lines == ["┌────┐", "│⠑⢄⠀⠀│", "│⠀⠀⠑⢄│", "└────┘"]


def test_a_full_and_an_empty_matrix():
    assert spy(np.ones((4, 4))).splitlines()[1] == "│⣿⣿│"
    assert spy(np.zeros((4, 4))).splitlines()[1] == "│⠀⠀│"


def test_each_braille_dot_is_its_entry():
    for i in range(4):
        for j in range(2):
            matrix = np.zeros((4, 2))
            matrix[i, j] = 1.0
            code = ord(spy(matrix).splitlines()[1][1]) - 0x2800
            assert (
                code
                == {(0, 0): 1, (1, 0): 2, (2, 0): 4, (0, 1): 8, (1, 1): 16, (2, 1): 32, (3, 0): 64, (3, 1): 128}[i, j]
            )


def test_blocks_and_ascii():
    tri = np.tril(np.ones((3, 3)))
    assert spy(tri, style="ascii").splitlines() == ["+---+", "|#..|", "|##.|", "|###|", "+---+"]
    assert spy(tri, style="block").splitlines()[1:-1] == ["│█▄ │", "│▀▀▀│"]


def test_nan_is_not_zero():
    assert spy(np.array([[np.nan, 0.0]]), style="ascii").splitlines()[1] == "|#.|"


@pytest.mark.parametrize("style", ["braille", "block", "ascii"])
def test_a_large_matrix_is_shrunk_and_keeps_every_entry_visible(style):
    matrix = np.zeros((1000, 3000))
    matrix[777, 2222] = 1e-300
    lines = spy(matrix, columns=40, rows=10, style=style).splitlines()
    assert len(lines) <= 12 and max(map(len, lines)) <= 40
    inside = "".join(line[1:-1] for line in lines[1:-1])
    assert sum(c not in " .⠀" for c in inside) == 1


def test_a_banded_matrix_keeps_its_band_when_shrunk():
    n = 400
    band = sum(np.eye(n, k=k) for k in (-1, 0, 1))
    lines = spy(band, columns=42, rows=40, style="ascii").splitlines()[1:-1]
    picture = np.array([[c == "#" for c in line[1:-1]] for line in lines])
    i, j = np.nonzero(picture)
    assert picture.shape == (40, 40) and np.abs(i - j).max() <= 1 and picture.diagonal().all()


def test_empty_matrices():
    assert spy(np.zeros((0, 3))) and spy(np.zeros((3, 0)))


@pytest.mark.parametrize(
    ("encoding", "style"),
    [("utf-8", "braille"), ("cp437", "block"), ("ascii", "ascii"), (None, "ascii"), ("no such", "ascii")],
)
def test_the_style_follows_the_encoding(encoding, style):
    assert choose_style(encoding) == style
