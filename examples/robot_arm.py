"""A robot arm reaches for a pose: inverse kinematics with the Jacobian of ordinary NumPy code.

`forward` multiplies six link transforms (the Denavit-Hartenberg table of a UR5 arm) and returns where the hand is and
how it is turned. Nobody wrote its derivative: `dualad.jacfwd` runs the same function once, with a tangent for each of
the six joints. Newton's method, damped in proportion to the error, then finds the joint angles for a wanted pose.

Look at the residual: near the end each exponent is about twice the one before, which only an exact Jacobian gives.
"""

import numpy as np

import dualad as da

# One row a joint: link length a (m), link offset d (m), link twist alpha (rad); the joint turns about its own z axis.
UR5 = (
    (0.0, 0.089159, np.pi / 2),
    (-0.425, 0.0, 0.0),
    (-0.39225, 0.0, 0.0),
    (0.0, 0.10915, np.pi / 2),
    (0.0, 0.09465, -np.pi / 2),
    (0.0, 0.0823, 0.0),
)
START = np.array([0.3, -1.0, 1.2, -0.6, 1.1, 0.2])
GOAL = np.array([0.7, -1.4, 1.7, -0.9, 1.4, 0.5])


def link(theta, a, d, alpha):
    """4x4 transform from one joint's frame to the next."""
    c, s, ca, sa = np.cos(theta), np.sin(theta), np.cos(alpha), np.sin(alpha)
    return np.stack(
        [
            np.stack([c, -s * ca, s * sa, a * c]),
            np.stack([s, c * ca, -c * sa, a * s]),
            np.stack([0.0, sa, ca, d]),
            np.stack([0.0, 0.0, 0.0, 1.0]),
        ]
    )


def forward(q):
    """4x4 pose of the hand for the six joint angles `q`."""
    pose = np.eye(4)
    for theta, (a, d, alpha) in zip(q, UR5, strict=True):
        pose = pose @ link(theta, a, d, alpha)
    return pose


def pose_error(q, target):
    """Six numbers, all zero at the target pose: metres of position, and the turn still missing (sine of its angle)."""
    pose = forward(q)
    turn = pose[:3, :3] @ target[:3, :3].T
    twist = np.stack([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]])
    return np.concatenate([pose[:3, 3] - target[:3, 3], 0.5 * twist])


def main():
    jacobian, target, q, residuals = da.jacfwd(pose_error), forward(GOAL), START, []
    for step in range(30):
        error, J = pose_error(q, target), jacobian(q, target)
        residuals.append(float(np.linalg.norm(error)))
        print(f"step {step}: residual {residuals[-1]:.1e}   condition of the Jacobian {np.linalg.cond(J):.1f}")
        if residuals[-1] < 1e-12:
            break
        q = q - np.linalg.solve(J.T @ J + 0.1 * residuals[-1] ** 2 * np.eye(6), J.T @ error)
    print("joint angles:", np.round(q, 6))
    return {"q": q, "target": target, "residuals": residuals}


__dualad__ = {"forward": [(START,), (GOAL,)], "pose_error": lambda: [(START, forward(GOAL)), (GOAL, forward(START))]}

if __name__ == "__main__":
    main()
