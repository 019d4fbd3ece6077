"""Linear regressions: children's scores, earnings, mesquite trees, party identification, diamonds."""

import numpy as np

from dualad.scipy.stats.constraints import positive, real

from .densities import cauchy, normal, student_t
from .model import model


def coefficients(count):
    return lambda d: {"beta": real(count), "sigma": positive()}


def linear(y, beta, sigma, *columns):
    """An intercept, and a coefficient for each column."""
    mu = beta[0]
    for slope, column in zip(beta[1:], columns, strict=True):
        mu = mu + slope * column
    return normal(y, mu, sigma)


# ── scores of children, by their mothers ─────────────────────────────────────────────────────────────────────────


@model(coefficients(2))
def kidscore_momhs(d, beta, sigma):
    return cauchy(sigma, 0.0, 2.5) + linear(d.kid_score, beta, sigma, d.mom_hs)


@model(coefficients(2))
def kidscore_momiq(d, beta, sigma):
    return cauchy(sigma, 0.0, 2.5) + linear(d.kid_score, beta, sigma, d.mom_iq)


@model(coefficients(3))
def kidscore_momhsiq(d, beta, sigma):
    return cauchy(sigma, 0.0, 2.5) + linear(d.kid_score, beta, sigma, d.mom_hs, d.mom_iq)


@model(coefficients(4))
def kidscore_interaction(d, beta, sigma):
    return cauchy(sigma, 0.0, 2.5) + linear(d.kid_score, beta, sigma, d.mom_hs, d.mom_iq, d.mom_hs * d.mom_iq)


@model(coefficients(4))
def kidscore_interaction_c(d, beta, sigma):
    hs, iq = d.mom_hs - np.mean(d.mom_hs), d.mom_iq - np.mean(d.mom_iq)
    return linear(d.kid_score, beta, sigma, hs, iq, hs * iq)


@model(coefficients(4))
def kidscore_interaction_c2(d, beta, sigma):
    hs, iq = d.mom_hs - 0.5, d.mom_iq - 100.0
    return linear(d.kid_score, beta, sigma, hs, iq, hs * iq)


@model(coefficients(4))
def kidscore_interaction_z(d, beta, sigma):
    hs = (d.mom_hs - np.mean(d.mom_hs)) / (2.0 * np.std(d.mom_hs, ddof=1))
    iq = (d.mom_iq - np.mean(d.mom_iq)) / (2.0 * np.std(d.mom_iq, ddof=1))
    return linear(d.kid_score, beta, sigma, hs, iq, hs * iq)


@model(coefficients(4))
def kidscore_mom_work(d, beta, sigma):
    return linear(d.kid_score, beta, sigma, d.mom_work == 2, d.mom_work == 3, d.mom_work == 4)


# ── earnings by height ───────────────────────────────────────────────────────────────────────────────────────────


@model(coefficients(2))
def earn_height(d, beta, sigma):
    return linear(d.earn, beta, sigma, d.height)


@model(coefficients(2))
def logearn_height(d, beta, sigma):
    return linear(np.log(d.earn), beta, sigma, d.height)


@model(coefficients(2))
def log10earn_height(d, beta, sigma):
    return linear(np.log10(d.earn), beta, sigma, d.height)


@model(coefficients(3))
def logearn_height_male(d, beta, sigma):
    return linear(np.log(d.earn), beta, sigma, d.height, d.male)


@model(coefficients(3))
def logearn_logheight_male(d, beta, sigma):
    return linear(np.log(d.earn), beta, sigma, np.log(d.height), d.male)


@model(coefficients(4))
def logearn_interaction(d, beta, sigma):
    return linear(np.log(d.earn), beta, sigma, d.height, d.male, d.height * d.male)


@model(coefficients(4))
def logearn_interaction_z(d, beta, sigma):
    z = (d.height - np.mean(d.height)) / np.std(d.height, ddof=1)
    return linear(np.log(d.earn), beta, sigma, z, d.male, z * d.male)


# ── weights of mesquite trees ────────────────────────────────────────────────────────────────────────────────────


def _sizes(d):
    """The logarithms of volume, area and shape of the canopy."""
    area = np.log(d.diam1 * d.diam2)
    return area + np.log(d.canopy_height), area, np.log(d.diam1 / d.diam2)


@model(coefficients(7))
def mesquite(d, beta, sigma):
    return linear(d.weight, beta, sigma, d.diam1, d.diam2, d.canopy_height, d.total_height, d.density, d.group)


@model(coefficients(7))
def logmesquite(d, beta, sigma):
    sizes = [np.log(x) for x in (d.diam1, d.diam2, d.canopy_height, d.total_height, d.density)]
    return linear(np.log(d.weight), beta, sigma, *sizes, d.group)


@model(coefficients(2))
def logmesquite_logvolume(d, beta, sigma):
    volume, _, _ = _sizes(d)
    return linear(np.log(d.weight), beta, sigma, volume)


@model(coefficients(4))
def logmesquite_logva(d, beta, sigma):
    volume, area, _ = _sizes(d)
    return linear(np.log(d.weight), beta, sigma, volume, area, d.group)


@model(coefficients(6))
def logmesquite_logvash(d, beta, sigma):
    return linear(np.log(d.weight), beta, sigma, *_sizes(d), np.log(d.total_height), d.group)


@model(coefficients(7))
def logmesquite_logvas(d, beta, sigma):
    heights = np.log(d.total_height), np.log(d.density)
    return linear(np.log(d.weight), beta, sigma, *_sizes(d), *heights, d.group)


# ── others ───────────────────────────────────────────────────────────────────────────────────────────────────────


@model(coefficients(9))
def nes(d, beta, sigma):
    ages = [d.age_discrete == k for k in (2, 3, 4)]
    return linear(d.partyid7, beta, sigma, d.real_ideo, d.race_adj, *ages, d.educ1, d.gender, d.income)


@model(coefficients(2))
def sesame_one_pred_a(d, beta, sigma):
    return linear(d.watched, beta, sigma, d.encouraged)


@model(lambda d: {"beta": real(d.D), "sigma": positive()})
def blr(d, beta, sigma):
    return normal(beta, 0.0, 10.0) + normal(sigma, 0.0, 10.0) + normal(d.y, d.X @ beta, sigma)


@model(lambda d: {"alpha": real(), "beta": real(), "sigma": positive()})
def kilpisjarvi(d, alpha, beta, sigma):
    prior = normal(alpha, d.pmualpha, d.psalpha) + normal(beta, d.pmubeta, d.psbeta)
    return prior + normal(d.y, alpha + beta * d.x, sigma)


@model(lambda d: {"b": real(d.K - 1), "Intercept": real(), "sigma": positive()})
def diamonds(d, b, Intercept, sigma):
    X = d.X[:, 1:] - np.mean(d.X[:, 1:], axis=0)
    prior = normal(b, 0.0, 1.0) + student_t(Intercept, 3.0, 8.0, 10.0) + student_t(sigma, 3.0, 0.0, 10.0)
    return prior + normal(d.Y, Intercept + X @ b, sigma)


@model(
    lambda d: {
        "Intercept": real(),
        "bs": real(d.Ks),
        "zs_1_1": real(d.knots_1),
        "sds_1_1": positive(),
        "Intercept_sigma": real(),
        "bs_sigma": real(d.Ks_sigma),
        "zs_sigma_1_1": real(d.knots_sigma_1),
        "sds_sigma_1_1": positive(),
    }
)
def accel_splines(d, Intercept, bs, zs_1_1, sds_1_1, Intercept_sigma, bs_sigma, zs_sigma_1_1, sds_sigma_1_1):
    mu = Intercept + d.Xs @ bs + d.Zs_1_1 @ (sds_1_1 * zs_1_1)
    log_sigma = Intercept_sigma + d.Xs_sigma @ bs_sigma + d.Zs_sigma_1_1 @ (sds_sigma_1_1 * zs_sigma_1_1)
    prior = student_t(Intercept, 3.0, -13.0, 36.0) + normal(zs_1_1, 0.0, 1.0) + student_t(sds_1_1, 3.0, 0.0, 36.0)
    prior = prior + student_t(Intercept_sigma, 3.0, 0.0, 10.0) + normal(zs_sigma_1_1, 0.0, 1.0)
    return prior + student_t(sds_sigma_1_1, 3.0, 0.0, 36.0) + normal(d.Y, mu, np.exp(log_sigma))
