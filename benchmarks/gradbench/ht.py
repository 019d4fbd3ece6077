"""Hand tracking: distances of measured points from a hand's mesh that 26 numbers pose."""

from typing import NamedTuple

import numpy as np

import dualad as da
from benchmarks.gradbench.evaluation import evaluation

__all__ = ["jacobian", "objective"]


class Hand(NamedTuple):
    base_relatives: np.ndarray
    inverse_base_absolutes: np.ndarray
    base_positions: np.ndarray
    weights: np.ndarray


def bends(theta, bones):
    """Return each bone's three Euler angles: the first joint of a finger has two that aren't zero, the others one."""
    angles = np.zeros((bones, 3), like=theta)
    for finger in range(5):
        first = 2 + 4 * finger
        angles[first, :2] = theta[6 + 4 * finger : 8 + 4 * finger]
        angles[first + 1 : first + 3, 0] = theta[8 + 4 * finger : 10 + 4 * finger]
    return angles


def rotations(angles):
    """Return the matrices Rz Ry Rx, in homogeneous coordinates; the angles come in the order x, z, y."""
    (cx, cz, cy), (sx, sz, sy) = np.cos(angles).T, np.sin(angles).T
    zero, one = np.zeros_like(cx), np.ones_like(cx)
    rows = (
        (cz * cy, cz * sy * sx - sz * cx, cz * sy * cx + sz * sx, zero),
        (sz * cy, sz * sy * sx + cz * cx, sz * sy * cx - cz * sx, zero),
        (-sy, cy * sx, cy * cx, zero),
        (zero, zero, zero, one),
    )
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def turn(axis):
    """Return the rotation about an axis by its length; below 1e-4 it is none."""
    square = axis @ axis
    small = square < 1e-8
    angle = np.sqrt(np.where(small, 1.0, square))
    x, y, z = axis / angle
    zero = np.zeros_like(x)
    cross = np.stack([np.stack([zero, -z, y]), np.stack([z, zero, -x]), np.stack([-y, x, zero])])
    turned = np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross
    return np.where(small, np.eye(3), turned)


def vertices(theta, hand, parents, mirrored):
    relatives = hand.base_relatives @ rotations(bends(theta, len(parents)))
    absolutes = []
    for parent, relative in zip(parents, relatives, strict=True):
        absolutes.append(relative if parent < 0 else absolutes[parent] @ relative)
    transforms = np.stack(absolutes) @ hand.inverse_base_absolutes
    blended = np.tensordot(hand.weights, transforms[:, :3, :], axes=1)
    positions = np.sum(blended * hand.base_positions[:, None, :], axis=2)
    if mirrored:
        positions = positions * np.array([-1.0, 1.0, 1.0])
    return positions @ turn(theta[:3]).T + theta[3:6]


def on_vertices(theta, hand, points, correspondences, *skeleton):
    return points - vertices(theta, hand, *skeleton)[correspondences]


def on_triangles(theta, us, hand, points, corners, *skeleton):
    positions = vertices(theta, hand, *skeleton)
    a, b, c = (positions[corners[:, i]] for i in range(3))
    u, v = us[:, :1], us[:, 1:]
    return points - (u * a + v * b + (1 - u - v) * c)


def slopes_on_vertices(theta, *data):
    return da.jacfwd(on_vertices)(theta, *data).reshape(-1, len(theta))


def slopes_on_triangles(theta, us, *data):
    """Return the derivatives by the two coordinates of each point's own triangle, and then by theta."""

    def by_coordinate(k):
        along = np.zeros(us.shape)
        along[:, k] = 1.0
        return da.jvp(lambda us: on_triangles(theta, us, *data), (us,), (along,))[1].reshape(-1, 1)

    by_theta = da.jacfwd(on_triangles)(theta, us, *data).reshape(-1, len(theta))
    return np.concatenate([by_coordinate(0), by_coordinate(1), by_theta], axis=1)


SIMPLE, COMPLICATED = 6, 7  # the number of arguments; the last two, the skeleton, are settings

values = {
    SIMPLE: da.jit(on_vertices, static_argnums=(4, 5)),
    COMPLICATED: da.jit(on_triangles, static_argnums=(5, 6)),
}
slopes = {
    SIMPLE: da.jit(slopes_on_vertices, static_argnums=(4, 5)),
    COMPLICATED: da.jit(slopes_on_triangles, static_argnums=(5, 6)),
}


def prepare(given):
    data, model = given["data"], given["data"]["model"]
    arrays = (model[name] for name in ("base_relatives", "inverse_base_absolutes", "base_positions", "weights"))
    hand, skeleton = Hand(*(np.array(a) for a in arrays)), (tuple(model["parents"]), model["is_mirrored"])
    theta, points, found = np.array(given["theta"]), np.array(data["points"]), np.array(data["correspondences"])
    if given["us"]:
        return theta, np.array(given["us"]), hand, points, np.array(model["triangles"])[found], *skeleton
    return theta, hand, points, found, *skeleton


@evaluation(prepare, lambda errors: errors.ravel().tolist())
def objective(argument):
    return values[len(argument)](*argument)


@evaluation(prepare, np.ndarray.tolist)
def jacobian(argument):
    return slopes[len(argument)](*argument)
