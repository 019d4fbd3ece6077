"""Terminal pictures of known matrices."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as ss

import dualad as da
from dualad.diagnose.pattern import choose_style, draw
from dualad.errors import ArgumentError


def test_identity_in_braille():
    # 4 x 2 dots a character: the diagonal of an 8 x 8 matrix takes 2 x 4 characters.
    lines = draw(np.eye(8)).splitlines()
    assert lines == ["┌────┐", "│⠑⢄⠀⠀│", "│⠀⠀⠑⢄│", "└────┘"]


def test_a_full_and_an_empty_matrix():
    assert draw(np.ones((4, 4))).splitlines()[1] == "│⣿⣿│"
    assert draw(np.zeros((4, 4))).splitlines()[1] == "│⠀⠀│"


def test_each_braille_dot_is_its_entry():
    for i in range(4):
        for j in range(2):
            matrix = np.zeros((4, 2))
            matrix[i, j] = 1.0
            code = ord(draw(matrix).splitlines()[1][1]) - 0x2800
            assert (
                code
                == {(0, 0): 1, (1, 0): 2, (2, 0): 4, (0, 1): 8, (1, 1): 16, (2, 1): 32, (3, 0): 64, (3, 1): 128}[i, j]
            )


def test_blocks_and_ascii():
    tri = np.tril(np.ones((3, 3)))
    assert draw(tri, style="ascii").splitlines() == ["+---+", "|#..|", "|##.|", "|###|", "+---+"]
    assert draw(tri, style="block").splitlines()[1:-1] == ["│█▄ │", "│▀▀▀│"]


def test_nan_is_not_zero():
    assert draw(np.array([[np.nan, 0.0]]), style="ascii").splitlines()[1] == "|#.|"


@pytest.mark.parametrize("style", ["braille", "block", "ascii"])
def test_a_large_matrix_is_shrunk_and_keeps_every_entry_visible(style):
    matrix = np.zeros((1000, 3000))
    matrix[777, 2222] = 1e-300
    lines = draw(matrix, columns=40, rows=10, style=style).splitlines()
    assert len(lines) <= 12 and max(map(len, lines)) <= 40
    inside = "".join(line[1:-1] for line in lines[1:-1])
    assert sum(c not in " .⠀" for c in inside) == 1


def test_a_banded_matrix_keeps_its_band_when_shrunk():
    n = 400
    band = sum(np.eye(n, k=k) for k in (-1, 0, 1))
    lines = draw(band, columns=42, rows=40, style="ascii").splitlines()[1:-1]
    picture = np.array([[c == "#" for c in line[1:-1]] for line in lines])
    i, j = np.nonzero(picture)
    assert picture.shape == (40, 40) and np.abs(i - j).max() <= 1 and picture.diagonal().all()


def test_empty_matrices():
    assert draw(np.zeros((0, 3))) and draw(np.zeros((3, 0)))


@pytest.mark.parametrize(
    ("encoding", "style"),
    [("utf-8", "braille"), ("cp437", "block"), ("ascii", "ascii"), (None, "ascii"), ("no such", "ascii")],
)
def test_the_style_follows_the_encoding(encoding, style):
    assert choose_style(encoding) == style


def test_spy_of_a_matrix_and_of_a_linear_map():
    f = lambda x, y: (x[:2] * y, np.sum(x))
    _, lin = da.linearize(f, np.ones(3), 2.0)
    picture = da.spy(lin, style="ascii")
    assert str(picture).splitlines()[1:-1] == ["|#..#|", "|.#.#|", "|###.|"]
    assert repr(picture).endswith("3 x 4, 7 not zero (58.3%)")
    assert (picture.pattern == da.spy(picture.pattern.astype(float)).pattern).all()


def test_spy_of_a_sparse_matrix():
    sparse = pytest.importorskip("scipy.sparse")
    assert da.spy(sparse.csr_array(np.eye(3))).pattern.tolist() == np.eye(3, dtype=bool).tolist()


def test_spy_in_a_notebook_fits_any_size():
    for shape in ((3, 4), (1000, 7), (0, 2)):
        text = da.spy(np.ones(shape))._repr_html_()
        assert text.startswith("<svg") and f"{shape[0]} x {shape[1]}" in text and len(text) < 60_000


def test_spy_with_matplotlib(monkeypatch):
    pytest.importorskip("matplotlib")
    axes = da.spy(np.eye(4)).plot(markersize=3)
    assert axes.get_xlabel() == "4 inputs" and axes.lines
    assert da.spy(np.eye(2)).plot(axes) is axes
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(ArgumentError, match=r"dualad\[viz\]"):
        da.spy(np.eye(2)).plot()


def test_spy_refuses_what_is_no_matrix():
    with pytest.raises(ArgumentError, match="reshape"):
        da.spy(np.ones((2, 2, 2)))
    with pytest.raises(ArgumentError, match="style"):
        da.spy(np.ones((2, 2)), style="dots")


def test_a_sparse_matrix_is_drawn_without_being_made_dense() -> None:
    n = 200_000
    big = ss.diags_array([np.ones(n), np.ones(n - 1)], offsets=[0, 1], format="csr")
    big.data[0] = 0.0
    picture = da.spy(big, columns=20, rows=10)
    assert "200000 x 200000, 399998 not zero" in repr(picture) and len(str(picture).splitlines()) <= 12
    assert "<svg" in picture._repr_html_()
    small = da.jacobian_sparsity(lambda x: x[:3] * x[3:], np.ones(6)).spy()
    assert str(small).splitlines() == ["+------+", "|#..#..|", "|.#..#.|", "|..#..#|", "+------+"]
    pytest.importorskip("matplotlib")
    assert da.spy(big).plot().images and da.spy(big[:50, :50]).plot().images
