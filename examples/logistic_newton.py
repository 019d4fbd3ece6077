"""Logistic regression by Newton's method: gradient and Hessian of the loss, on 569 real patients.

The data are scikit-learn's copy of the Wisconsin breast-cancer study: 30 measurements of a tumour's cell nuclei, and
whether it was malignant. `loss` is the negative log-likelihood with a small ridge, in three lines of NumPy;
`dualad.grad` and `dualad.hessian` supply what Newton's method asks for, and the last Hessian gives standard errors.

Look at the gradient's norm: it reaches rounding error in about ten steps, its exponent doubling at the end.
"""

import numpy as np

import dualad as da

RIDGE = 1e-2


def loss(w, X, y):
    """Mean negative log-likelihood of labels `y` (+1 or -1) under the weights `w`, with a ridge penalty."""
    margins = y * (X @ w)
    return np.mean(np.logaddexp(0.0, -margins)) + 0.5 * RIDGE * np.sum(w**2)


def patients():
    """Standardized measurements after a column of ones (569, 31), and +1 (malignant) or -1 (benign) a patient."""
    from sklearn.datasets import load_breast_cancer

    X, benign = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return np.column_stack([np.ones(len(X)), X]), 1.0 - 2.0 * benign


def points():
    X, y = patients()
    return [(np.linspace(-0.5, 0.5, 6), X[:12, :6], y[:12])]


def main():
    X, y = patients()
    gradient, hessian = da.grad(loss), da.hessian(loss)
    w, norms = np.zeros(X.shape[1]), []
    for step in range(20):
        g = gradient(w, X, y)
        norms.append(float(np.linalg.norm(g)))
        print(f"step {step}: loss {loss(w, X, y):.12f}   norm of the gradient {norms[-1]:.1e}")
        if norms[-1] < 1e-14:
            break
        w = w - np.linalg.solve(hessian(w, X, y), g)
    accuracy = float(np.mean(np.sign(X @ w) == y))
    errors = np.sqrt(np.diag(np.linalg.inv(len(y) * hessian(w, X, y))))
    strongest = 1 + np.argmax(np.abs(w[1:] / errors[1:]))
    print(
        f"accuracy {accuracy:.1%}; surest weight: column {strongest - 1}, {w[strongest]:.2f} ± {errors[strongest]:.2f}"
    )
    return {"w": w, "norms": norms, "accuracy": accuracy, "X": X, "y": y}


__dualad__ = {"loss": points}

if __name__ == "__main__":
    main()
