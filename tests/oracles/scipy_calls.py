"""SciPy's own functions, each as a function of one vector of five entries, called by SciPy's public name.

Which of them run on tensors is measured by `tests/scipy/test_scipy_direct.py` and listed in `tests/scipy/direct.json`,
of which the documentation makes its table. Not for: `dualad.scipy`, whose functions have tests of their own.
"""

from __future__ import annotations

import numpy as np
import scipy.fft as sf
import scipy.integrate as si
import scipy.linalg as sl
import scipy.ndimage as nd
import scipy.optimize as so
import scipy.signal as sg
import scipy.spatial.distance as sd
import scipy.special as sp
import scipy.stats as st
from scipy.spatial.transform import Rotation

__all__ = ["CALLS"]


def _matrix(x):
    return np.outer(x, x) + 2 * np.eye(5)


def _points(x):
    return np.reshape(x[:4], (2, 2))


def _spin(x):
    return Rotation.from_rotvec(x[:3])


def _interpolate(name: str):
    import scipy.interpolate

    return lambda x: getattr(scipy.interpolate, name)(np.arange(5.0), x)(0.5)


def _newer(module: str, name: str):
    """Return a function of a module that older releases of SciPy do not have, or None."""
    import importlib

    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None


#: name below scipy -> the function, of one vector
CALLS = {
    # special
    "special.jvp": lambda x: sp.jvp(1, x),
    "special.yvp": lambda x: sp.yvp(1, x, 2),
    "special.zeta": lambda x: sp.zeta(2.5, x),
    "special.softplus": getattr(sp, "softplus", lambda x: np.logaddexp(0, x)),
    "special.lambertw": lambda x: np.real(sp.lambertw(x)),
    "special.softmax": sp.softmax,
    "special.logsumexp": sp.logsumexp,
    "special.log_softmax": sp.log_softmax,
    "special.polygamma": lambda x: sp.polygamma(1, x),
    "special.multigammaln": lambda x: sp.multigammaln(x + 1, 2),
    "special.comb": lambda x: sp.comb(x + 3, 2),
    "special.spherical_jn": lambda x: sp.spherical_jn(1, x),
    # fft
    "fft.fft": lambda x: np.abs(sf.fft(x)),
    "fft.rfft": lambda x: np.abs(sf.rfft(x)),
    "fft.irfft": sf.irfft,
    "fft.hfft": sf.hfft,
    "fft.fftshift": sf.fftshift,
    "fft.fht": lambda x: sf.fht(x, 0.1, 0.5),
    "fft.dct": sf.dct,
    # integrate, differentiate
    "integrate.trapezoid": si.trapezoid,
    "integrate.cumulative_trapezoid": si.cumulative_trapezoid,
    "integrate.simpson": si.simpson,
    "integrate.cumulative_simpson": si.cumulative_simpson,
    "integrate.romb": si.romb,
    "integrate.fixed_quad": lambda x: si.fixed_quad(lambda t: np.sin(t * x[0]) + x[1], 0, 1)[0],
    "integrate.tanhsinh": lambda x: _newer("scipy.integrate", "tanhsinh")(np.sin, 0 * x, x).integral,
    "integrate.nsum": lambda x: _newer("scipy.integrate", "nsum")(lambda k: (k + 1) ** -2, 0 * x, 0 * x + 3.0).sum * x,
    "integrate.cubature": lambda x: (
        _newer("scipy.integrate", "cubature")(lambda t: np.exp(t[..., 0:1] * x), [0.0], [1.0]).estimate
    ),
    "integrate.quad": lambda x: si.quad(lambda t: t * x[0], 0, 1)[0],
    "integrate.solve_ivp": lambda x: si.solve_ivp(lambda t, y: -y, (0, 1), x, rtol=1e-11, atol=1e-12).y[:, -1],
    "differentiate.derivative": lambda x: _newer("scipy.differentiate", "derivative")(np.sin, x).df,
    # optimize
    "optimize.rosen": so.rosen,
    "optimize.rosen_der": so.rosen_der,
    "optimize.newton": lambda x: so.newton(lambda t: t**2 - x[0], 1.0),
    "optimize.brentq": lambda x: so.brentq(lambda t: t**2 - x[0], 0, 2),
    "optimize.minimize": lambda x: (
        so.minimize(lambda t: np.sum((t - x) ** 2), np.zeros(5), jac=lambda t: 2 * (t - x)).x
    ),
    "optimize.elementwise.find_root": lambda x: (
        _newer("scipy.optimize.elementwise", "find_root")(lambda t, c: t**2 - c, (0 * x, 0 * x + 2.0), args=(x,)).x
    ),
    # linalg
    "linalg.block_diag": lambda x: sl.block_diag(x, x),
    "linalg.fiedler": sl.fiedler,
    "linalg.toeplitz": sl.toeplitz,
    "linalg.hankel": sl.hankel,
    "linalg.khatri_rao": lambda x: sl.khatri_rao(_points(x), _points(x)),
    "linalg.convolution_matrix": lambda x: sl.convolution_matrix(x, 3),
    "linalg.norm": sl.norm,
    "linalg.solve": lambda x: sl.solve(np.eye(5), x),
    "linalg.det": lambda x: sl.det(_matrix(x)),
    "linalg.expm": lambda x: sl.expm(_matrix(x)),
    # signal
    "signal.convolve": lambda x: sg.convolve(x, x, method="direct"),
    "signal.correlate": lambda x: sg.correlate(x, x),
    "signal.fftconvolve": lambda x: sg.fftconvolve(x, x),
    "signal.oaconvolve": lambda x: sg.oaconvolve(x, x),
    "signal.hilbert": lambda x: np.abs(sg.hilbert(x)),
    "signal.envelope": lambda x: _newer("scipy.signal", "envelope")(x)[0],
    "signal.resample": lambda x: sg.resample(x, 7),
    "signal.wiener": sg.wiener,
    "signal.vectorstrength": lambda x: sg.vectorstrength(x, 2.0)[0],
    "signal.chirp": lambda x: sg.chirp(x, 1.0, 1.0, 2.0),
    "signal.windows.gaussian": lambda x: sg.windows.gaussian(5, x[0]),
    "signal.sawtooth": sg.sawtooth,
    "signal.detrend": sg.detrend,
    "signal.lfilter": lambda x: sg.lfilter([1.0, 0.5], [1.0, 0.2], x),
    # ndimage
    "ndimage.mean": nd.mean,
    "ndimage.maximum": nd.maximum,
    "ndimage.gaussian_filter": lambda x: nd.gaussian_filter(x, 1.0),
    "ndimage.map_coordinates": lambda x: nd.map_coordinates(x, [[0.5, 1.5]], order=1),
    # interpolate
    "interpolate.BarycentricInterpolator": _interpolate("BarycentricInterpolator"),
    "interpolate.CubicSpline": _interpolate("CubicSpline"),
    # spatial
    "spatial.transform.Rotation.as_matrix": lambda x: _spin(x).as_matrix(),
    "spatial.transform.Rotation.as_euler": lambda x: _spin(x).as_euler("zyx"),
    "spatial.transform.Rotation.apply": lambda x: _spin(x).apply(x[1:4]),
    "spatial.transform.Rotation.__mul__": lambda x: (_spin(x) * Rotation.from_rotvec(x[2:])).as_rotvec(),
    "spatial.distance.euclidean": lambda x: sd.euclidean(x, x + 1 + x**2),
    "spatial.distance.minkowski": lambda x: sd.minkowski(x, x**2, 3),
    "spatial.distance.mahalanobis": lambda x: sd.mahalanobis(x, x**2, np.eye(5)),
    "spatial.distance.chebyshev": lambda x: sd.chebyshev(x, x**2),
    "spatial.distance.cosine": lambda x: sd.cosine(x, x**2),
    "spatial.distance.cdist": lambda x: sd.cdist(_points(x), _points(x) + 1),
    # stats
    "stats.zscore": st.zscore,
    "stats.gzscore": st.gzscore,
    "stats.zmap": lambda x: st.zmap(x, x**2),
    "stats.gmean": st.gmean,
    "stats.hmean": st.hmean,
    "stats.pmean": lambda x: st.pmean(x, 2),
    "stats.trim_mean": lambda x: st.trim_mean(x, 0.2),
    "stats.skew": st.skew,
    "stats.kurtosis": st.kurtosis,
    "stats.moment": lambda x: st.moment(x, 3),
    "stats.kstat": lambda x: st.kstat(x, 3),
    "stats.sem": st.sem,
    "stats.iqr": st.iqr,
    "stats.median_abs_deviation": st.median_abs_deviation,
    "stats.variation": st.variation,
    "stats.entropy": st.entropy,
    "stats.differential_entropy": st.differential_entropy,
    "stats.circmean": st.circmean,
    "stats.circvar": st.circvar,
    "stats.directional_stats": lambda x: st.directional_stats(_points(x)).mean_direction,
    "stats.boxcox_llf": lambda x: st.boxcox_llf(0.5, x),
    "stats.jarque_bera": lambda x: st.jarque_bera(x).statistic,
    "stats.ttest_1samp": lambda x: st.ttest_1samp(x, 0.3).pvalue,
    "stats.ttest_ind": lambda x: st.ttest_ind(x, x**2).statistic,
    "stats.bartlett": lambda x: st.bartlett(x, x**2).statistic,
    "stats.levene": lambda x: st.levene(x, x**2).statistic,
    "stats.chisquare": lambda x: st.chisquare(x).statistic,
    "stats.false_discovery_control": st.false_discovery_control,
    "stats.linregress": lambda x: st.linregress(x, x**2).slope,
    "stats.pearsonr": lambda x: st.pearsonr(x, x**2)[0],
    "stats.norm.pdf": st.norm.pdf,
    "stats.gaussian_kde": lambda x: st.gaussian_kde(x)(0.5),
}
