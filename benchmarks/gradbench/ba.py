"""Bundle adjustment: errors of projected points, and their sparse Jacobian in cameras, points and weights."""

import numpy as np

import dualad as da
from benchmarks.gradbench.evaluation import evaluation

__all__ = ["jacobian", "objective"]


def rotate(r, point):
    """Return the point turned about the axis r by the angle ‖r‖; no rotation turns by its linear part."""
    square = r @ r
    turns = square > 0
    angle = np.sqrt(np.where(turns, square, 1.0))
    axis, c, s = r / angle, np.cos(angle), np.sin(angle)
    turned = point * c + np.cross(axis, point) * s + axis * (axis @ point) * (1 - c)
    return np.where(turns, turned, point + np.cross(r, point))


def reprojection_error(camera, point, weight, feature):
    """Return one weighted error; a camera is rotation, centre, focal length, principal point, distortion."""
    seen = rotate(camera[:3], point - camera[3:6])
    flat = seen[:2] / seen[2]
    square = flat @ flat
    distorted = flat * (1 + camera[9] * square + camera[10] * square**2)
    return weight * (distorted * camera[6] + camera[7:9] - feature)


def weight_error(weight):
    return 1 - weight**2


errors = da.jit(da.vmap(reprojection_error))
blocks = da.jit(da.vmap(da.jacrev(reprojection_error, argnums=(0, 1, 2))))
weight_slopes = da.jit(da.vmap(da.grad(weight_error)))


def sparse_jacobian(cameras, points, weights, features, seen_by, shows):
    """Return row starts, columns and values: two rows for an observation, and then one for a weight."""
    n, m, p = len(cameras), len(points), len(weights)
    camera, point, weight = blocks(cameras[seen_by], points[shows], weights, features)
    values = np.concatenate([camera, point, weight[:, :, None]], axis=2)

    columns = np.empty((p, 2, 15), np.int32)
    columns[:, :, :11] = (11 * seen_by[:, None] + np.arange(11))[:, None]
    columns[:, :, 11:14] = (11 * n + 3 * shows[:, None] + np.arange(3))[:, None]
    of_weights = 11 * n + 3 * m + np.arange(p, dtype=np.int32)
    columns[:, :, 14] = of_weights[:, None]
    starts = np.concatenate([15 * np.arange(2 * p + 1), 30 * p + np.arange(1, p + 1)])
    return starts, np.append(columns, of_weights), np.append(values, weight_slopes(weights))


def prepare(given):
    n, m, p = given["n"], given["m"], given["p"]
    which = np.arange(p, dtype=np.int32)
    return (
        np.tile(given["cam"], (n, 1)),
        np.tile(given["x"], (m, 1)),
        np.full(p, given["w"]),
        np.tile(given["feat"], (p, 1)),
        which % n,
        which % m,
    )


def first_errors(found):
    of_points, of_weights = found
    return {
        "reproj_error": {"elements": of_points[0].tolist(), "repeated": len(of_points)},
        "w_err": {"element": float(of_weights[0]), "repeated": len(of_weights)},
    }


def ends(found):
    """Return the first 30 entries of each list and the last one: the observations are all the same."""
    return {
        name: [*entries[:30].tolist(), entries[-1].item()]
        for name, entries in zip(("rows", "cols", "vals"), found, strict=True)
    }


@evaluation(prepare, first_errors)
def objective(argument):
    cameras, points, weights, features, seen_by, shows = argument
    return errors(cameras[seen_by], points[shows], weights, features), weight_error(weights)


@evaluation(prepare, ends)
def jacobian(argument):
    return sparse_jacobian(*argument)
