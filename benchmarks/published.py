"""Functions of published packages as they are, nothing rewritten and nothing lifted by hand.

``python -m benchmarks.published`` holds the value, the derivatives in both modes and to second order, the lanes of
``vmap`` and ``jit`` of each against the function itself: its values, central differences, a loop. Packages that are not
installed are left out. Not for: times, nor the packages of the test suite, whose list is ``tests/packages/calls.py``.
"""

import collections
import importlib
import sys
import warnings

import numpy as np

import dualad as da

__all__ = ["CALLS", "check", "main"]

# ruff: noqa: E501  (a function a line)

#: module m, an expression of it and of a vector x, and the vector
CALLS = [
    ("statsmodels.genmod.families.links", "m.Logit()(x)", [0.2, 0.5, 0.9]),
    ("statsmodels.genmod.families.links", "m.Logit().inverse(x)", [0.2, -0.5, 0.9]),
    ("statsmodels.genmod.families.links", "m.CLogLog()(x)", [0.2, 0.5, 0.9]),
    ("statsmodels.genmod.families.links", "m.Power(0.5).deriv(x)", [0.2, 0.5, 0.9]),
    ("statsmodels.genmod.families.links", "m.NegativeBinomial(0.5).inverse(x)", [-0.7, -0.5, -0.9]),
    ("statsmodels.genmod.families", "m.Poisson().deviance(np.array([1.0, 2.0, 3.0]), x)", [0.7, 2.5, 3.9]),
    ("statsmodels.genmod.families", "m.Gamma().loglike(np.array([1.0, 2.0, 3.0]), x, scale=0.7)", [0.7, 2.5, 3.9]),
    ("statsmodels.genmod.families", "m.Binomial().loglike(np.array([1.0, 0.0, 1.0]), x)", [0.7, 0.5, 0.9]),
    ("statsmodels.robust.norms", "m.HuberT().rho(x)", [0.3, -2.5, 1.2]),
    ("statsmodels.robust.norms", "m.TukeyBiweight().rho(x)", [0.3, -2.5, 1.2]),
    ("statsmodels.robust.norms", "m.Hampel().rho(x)", [0.3, -2.5, 5.2]),
    ("statsmodels.robust.norms", "m.AndrewWave().psi(x)", [0.3, -2.5, 1.2]),
    ("statsmodels.api", "m.Logit([0, 1, 1, 0], np.array([[1, 0.2], [1, 1.5], [1, -0.3], [1, 0.4]])).loglike(x)", [0.3, -0.5]),
    ("statsmodels.api", "m.Probit([0, 1, 1, 0], np.array([[1, 0.2], [1, 1.5], [1, -0.3], [1, 0.4]])).loglike(x)", [0.3, -0.5]),
    ("statsmodels.api", "m.Poisson([0, 3, 1, 2], np.array([[1, 0.2], [1, 1.5], [1, -0.3], [1, 0.4]])).loglike(x)", [0.3, -0.5]),
    ("statsmodels.api", "m.MNLogit([0, 1, 2, 1], np.array([[1, 0.2], [1, 1.5], [1, -0.3], [1, 0.4]])).loglike(x)", [0.3, -0.5, 0.1, 0.2]),
    ("statsmodels.api", "m.NegativeBinomial([0, 3, 1, 2], np.array([[1, 0.2], [1, 1.5], [1, -0.3], [1, 0.4]])).loglike(x)", [0.3, -0.5, 0.7]),
    ("statsmodels.api", "m.OLS([0.0, 3, 1, 2], np.array([[1, 0.2], [1, 1.5], [1, -0.3], [1, 0.4]])).loglike(x)", [0.3, -0.5]),
    ("statsmodels.api", "m.GLM([0.5, 3, 1, 2], np.array([[1, 0.2], [1, 1.5], [1, -0.3], [1, 0.4]]), m.families.Gamma(m.families.links.Log())).loglike(x)", [0.3, -0.5]),
    ("statsmodels.tools.numdiff", "m.approx_fprime_cs(np.array([1.0, 2.0]), lambda z: x[0] * z**2)", [0.5]),
    ("statsmodels.tsa.stattools", "m.acovf(x, fft=False)", [0.3, 1.2, -0.5, 0.8]),
    ("statsmodels.tsa.tsatools", "m.detrend(x, order=1)", [0.3, 1.2, -0.5, 0.8]),
    ("statsmodels.tsa.arima_process", "m.arma_acovf([1, x[0]], [1, x[1]], nobs=4)", [0.3, 0.2]),
    ("statsmodels.stats.weightstats", "m.DescrStatsW(x, weights=np.array([1.0, 2.0, 3.0])).var", [0.3, 1.2, -0.5]),
    ("statsmodels.stats.moment_helpers", "m.mc2mnc(list(x))", [0.3, 1.2, 0.5, 0.7]),
    ("statsmodels.nonparametric.kernels_asymmetric", "m.kernel_pdf_gamma(x[0], np.array([0.5, 1.0, 1.5]), x[1])", [1.1, 0.5]),
    ("sklearn.metrics", "m.mean_squared_error(np.array([1.0, 2.0, 3.0]), x)", [0.7, 2.5, 3.9]),
    ("sklearn.metrics", "m.mean_poisson_deviance(np.array([1.0, 2.0, 3.0]), x)", [0.7, 2.5, 3.9]),
    ("sklearn.metrics", "m.r2_score(np.array([1.0, 2.0, 3.0]), x)", [0.7, 2.5, 3.9]),
    ("sklearn.metrics", "m.log_loss([0, 1, 1], np.stack([1 - x, x], 1))", [0.7, 0.5, 0.9]),
    ("sklearn.metrics.pairwise", "m.rbf_kernel(x.reshape(2, 2), gamma=0.5)", [0.7, 2.5, 3.9, 1.0]),
    ("sklearn.metrics.pairwise", "m.euclidean_distances(x.reshape(2, 2), np.ones((1, 2)))", [0.7, 2.5, 3.9, 1.5]),
    ("sklearn.metrics.pairwise", "m.cosine_similarity(x.reshape(2, 2))", [0.7, 2.5, 3.9, 1.0]),
    ("sklearn.metrics.pairwise", "m.haversine_distances(x.reshape(2, 2))", [0.7, 0.5, 0.9, 1.0]),
    ("sklearn.utils.extmath", "m.softmax(x.reshape(2, 2))", [0.7, 2.5, 3.9, 1.0]),
    ("sklearn.gaussian_process.kernels", "m.RBF(1.3)(x.reshape(2, 2))", [0.7, 2.5, 3.9, 1.0]),
    ("sklearn.gaussian_process.kernels", "(m.RationalQuadratic(1.3, 0.7) + m.WhiteKernel(0.1))(x.reshape(2, 2))", [0.7, 2.5, 3.9, 1.0]),
    ("sklearn.gaussian_process.kernels", "m.ExpSineSquared(1.3, 2.0)(x.reshape(2, 2))", [0.7, 2.5, 3.9, 1.0]),
    ("sklearn.gaussian_process.kernels", "m.Matern(1.3, nu=2.5)(x.reshape(2, 2))", [0.7, 2.5, 3.9, 1.0]),
    ("sklearn.covariance", "m.empirical_covariance(x.reshape(3, 2))", [0.7, 2.5, 3.9, 1.0, 0.2, 0.4]),
    ("sklearn.covariance", "m.ledoit_wolf_shrinkage(x.reshape(3, 2))", [0.7, 2.5, 3.9, 1.0, 0.2, 0.4]),
    ("quantecon", "m.solve_discrete_lyapunov(np.array([[x[0], 0.1], [0.0, x[1]]]), np.eye(2))", [0.5, 0.3]),
    ("quantecon", "m.LQ(np.array([[x[0]]]), np.eye(1), np.eye(1), np.eye(1), beta=0.95).stationary_values()[0]", [1.3]),
    ("quantecon", "m.LinearStateSpace(np.array([[x[0], 0.1], [0.0, 0.5]]), np.eye(2), np.array([[1.0, x[1]]])).stationary_distributions()[2]", [0.5, 0.3]),
    ("pyriemann.utils.distance", "m.distance_riemann(np.array([[x[0], 0.2], [0.2, 1.0]]), np.array([[1.0, x[1]], [x[1], 2.0]]))", [1.5, 0.3]),
    ("pyriemann.utils.distance", "m.distance_logeuclid(np.array([[x[0], 0.2], [0.2, 1.0]]), np.array([[1.0, x[1]], [x[1], 2.0]]))", [1.5, 0.3]),
    ("pyriemann.utils.distance", "m.distance_kullback(np.array([[x[0], 0.2], [0.2, 1.0]]), np.array([[1.0, x[1]], [x[1], 2.0]]))", [1.5, 0.3]),
    ("pyriemann.utils.base", "m.logm(np.array([[x[0], 0.2], [0.2, x[1]]]))", [1.5, 2.3]),
    ("pyriemann.utils.base", "m.sqrtm(np.array([[x[0], 0.2], [0.2, x[1]]]))", [1.5, 2.3]),
    ("pyriemann.utils.mean", "m.mean_logeuclid(np.stack([np.array([[x[0], 0.2], [0.2, 1.0]]), np.array([[1.0, x[1]], [x[1], 2.0]])]))", [1.5, 0.3]),
    ("pyriemann.utils.mean", "m.mean_wasserstein(np.stack([np.array([[x[0], 0.2], [0.2, 1.0]]), np.array([[1.0, x[1]], [x[1], 2.0]])]))", [1.5, 0.3]),
    ("pyriemann.utils.geodesic", "m.geodesic_riemann(np.array([[x[0], 0.2], [0.2, 1.0]]), np.array([[1.0, x[1]], [x[1], 2.0]]), 0.3)", [1.5, 0.3]),
    ("pyriemann.utils.tangentspace", "m.upper(np.array([[x[0], 0.2], [0.2, x[1]]]))", [1.5, 0.3]),
    ("control", "m.lqr(np.array([[0.0, 1.0], [x[0], 0.0]]), np.array([[0.0], [1.0]]), np.eye(2), np.eye(1))[0]", [0.7]),
    ("control", "m.ctrb(np.array([[0.0, 1.0], [x[0], x[1]]]), np.array([[0.0], [1.0]]))", [0.7, 0.3]),
    ("control", "m.lyap(np.array([[-x[0], 1.0], [0.0, -x[1]]]), np.eye(2))", [0.7, 1.3]),
    ("control", "abs(m.tf([x[0]], [1.0, x[1], 1.0])(1.5j))", [0.7, 0.3]),
    ("control", "m.ss([[0.0, 1.0], [-x[0], -x[1]]], [[0.0], [1.0]], [[1.0, 0.0]], [[0.0]]).dcgain()", [0.7, 0.3]),
    ("pykalman", "m.KalmanFilter(np.array([[1.0, x[0]], [0.0, 1.0]]), np.array([[1.0, 0.0]]), 0.1 * np.eye(2), np.eye(1)).loglikelihood(np.array([1.0, 2.0, 2.5]))", [0.7]),
    ("pvlib.irradiance", "m.aoi_projection(30.0, 180.0, x[0], x[1])", [40.0, 170.0]),
    ("pvlib.irradiance", "m.perez(30.0, 180.0, x[0], 800.0, 1300.0, x[1], 170.0, 1.3)", [100.0, 40.0]),
    ("pvlib.irradiance", "m.haydavies(30.0, 180.0, x[0], 800.0, 1300.0, x[1], 170.0)", [100.0, 40.0]),
    ("pvlib.irradiance", "m.erbs(x[0], x[1], 100)['dni']", [500.0, 40.0]),
    ("pvlib.atmosphere", "m.get_relative_airmass(x, 'kastenyoung1989')", [40.0, 60.0]),
    ("pvlib.atmosphere", "m.gueymard94_pw(x[0], x[1])", [20.0, 60.0]),
    ("pvlib.temperature", "m.sapm_cell(x[0], x[1], x[2], -3.47, -0.0594, 3)", [800.0, 20.0, 2.0]),
    ("pvlib.temperature", "m.faiman(x[0], x[1], x[2])", [800.0, 20.0, 2.0]),
    ("pvlib.pvsystem", "m.pvwatts_dc(x[0], x[1], 240, -0.003)", [800.0, 35.0]),
    ("pvlib.pvsystem", "m.calcparams_desoto(x[0], x[1], 0.0045, 1.2, 5.6, 1e-9, 600.0, 0.5)[:3]", [800.0, 35.0]),
    ("pvlib.singlediode", "m.bishop88(x[0], 5.6, 1e-9, x[1], 600.0, 1.2)[2]", [20.0, 0.5]),
    ("pvlib.iam", "m.physical(x)", [40.0, 60.0]),
    ("pvlib.iam", "m.ashrae(x)", [40.0, 60.0]),
    ("arch.univariate.distribution", "m.StudentsT().loglikelihood(x[:1], np.array([0.1, -0.5]), np.array([1.0, x[1]]))", [6.0, 1.5]),
    ("arch.univariate.distribution", "m.SkewStudent().loglikelihood(x[:2], np.array([0.1, -0.5]), np.array([1.0, x[2]]))", [6.0, 0.2, 1.5]),
    ("arch.univariate.distribution", "m.GeneralizedError().loglikelihood(x[:1], np.array([0.1, -0.5]), np.array([1.0, x[1]]))", [1.6, 1.5]),
    ("arch.univariate.distribution", "m.Normal().loglikelihood([], np.array([0.1, -0.5]), x)", [1.6, 1.5]),
    ("arch.univariate.recursions_python", "m.garch_recursion_python(x, np.array([0.1, 0.5, 0.2]), np.array([0.3, -0.7, 0.4]), np.zeros(3), 1, 0, 1, 3, 0.5, np.array([[1e-6, 1e6]] * 3))", [0.1, 0.2, 0.7]),
    ("chemicals", "m.Antoine(x[0], 8.95894, 510.595, -15.95)", [120.0]),
    ("chemicals", "m.Rackett(x[0], 369.83, 4248000.0, 0.2763)", [272.03889]),
    ("chemicals.iapws", "m.iapws95_P(x[0], x[1])", [300.0, 990.0]),
    ("chemicals.viscosity", "m.Letsou_Stiel(x[0], 46.07, 516.25, 6.383E6, 0.6371)", [400.0]),
    ("ht.conv_internal", "m.turbulent_Gnielinski(Re=x[0], Pr=x[1], fd=0.0185)", [1e5, 1.2]),
    ("ht.hx", "m.effectiveness_from_NTU(x[0], x[1], subtype='counterflow')", [5.0, 0.7]),
    ("ht.radiation", "m.q_rad(x[0], x[1], 300.0)", [0.9, 400.0]),
    ("ht.core", "m.LMTD(x[0], x[1], 30.0, 40.2)", [100.0, 60.0]),
    ("thermo.eos", "m.PR(Tc=507.6, Pc=3025000.0, omega=0.2975, T=x[0], P=x[1]).V_l", [299.0, 1e6]),
    ("thermo.nrtl", "m.NRTL_gammas([x[0], 1 - x[0]], [[0, -0.1], [0.3, 0]], [[0, 0.2937], [0.2937, 0]])", [0.25]),
    ("thermo.unifac", "m.UNIFAC_gammas(T=x[0], xs=[x[1], 1 - x[1]], chemgroups=[{1: 2, 2: 4}, {1: 1, 2: 1, 18: 1}])", [333.15, 0.5]),
    ("fluids.atmosphere", "m.ATMOSPHERE_1976(x[0]).P", [5000.0]),
    ("ruptures.costs", "m.CostL2().fit(np.reshape(x, (4, 1))).error(0, 4)", [0.3, 1.2, -0.5, 0.8]),
    ("ruptures.costs", "m.CostRbf(gamma=0.5).fit(np.reshape(x, (4, 1))).error(0, 4)", [0.3, 1.2, -0.5, 0.8]),
    ("ruptures.costs", "m.CostLinear().fit(np.stack([x, np.ones(4), np.arange(4.0)], 1)).error(0, 4)", [0.3, 1.2, -0.5, 0.8]),
    ("pymoo.problems", "m.get_problem('rosenbrock', n_var=3).evaluate(x)", [0.3, 0.7, 1.1]),
    ("pymoo.problems", "m.get_problem('ackley', n_var=3).evaluate(x)", [0.3, 0.7, 1.1]),
    ("pymoo.problems", "m.get_problem('griewank', n_var=3).evaluate(x)", [0.3, 0.7, 1.1]),
    ("pymoo.problems", "m.get_problem('zdt1', n_var=3).evaluate(x)", [0.3, 0.7, 0.1]),
    ("pymoo.problems", "m.get_problem('dtlz2', n_var=5, n_obj=3).evaluate(x)", [0.3, 0.7, 0.1, 0.2, 0.4]),
    ("pymoo.problems", "m.get_problem('welded_beam').evaluate(x)", [0.3, 0.7, 5.1, 1.0]),
    ("pymoo.problems", "m.get_problem('truss2d').evaluate(x)", [0.003, 0.007, 1.5]),
    ("pymoo.problems", "m.get_problem('g1').evaluate(x)", [0.3, 0.7, 0.1, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 2.0, 3.0, 0.9]),
    ("quaternionic", "(m.array(x[:4]) * m.array(x[4:])).ndarray", [0.8, 0.36, -0.4, 0.26, 0.5, -0.5, 0.1, 0.7]),
    ("astropy.modeling.models", "m.Gaussian1D(x[0], x[1], x[2])(np.array([0.0, 1.0]))", [1.3, 0.2, 0.7]),
    ("astropy.modeling.functional_models", "m.Moffat1D.evaluate(np.array([0.0, 1.0]), *x)", [1.3, 0.2, 0.7, 2.0]),
    ("astropy.modeling.functional_models", "m.Voigt1D().evaluate(np.array([0.0, 1.0]), *x)", [0.2, 1.3, 0.7, 0.5]),
    ("astropy.modeling.functional_models", "m.Sersic2D.evaluate(np.array([0.3, 1.0]), np.array([0.2, 0.5]), *x)", [1.3, 2.0, 2.5, 0.1, 0.2, 0.3, 0.4]),
    ("astropy.modeling.powerlaws", "m.SmoothlyBrokenPowerLaw1D.evaluate(np.array([0.3, 1.0]), *x)", [1.3, 0.6, 0.5, 2.0, 0.3]),
    ("astropy.modeling.physical_models", "m.Drude1D.evaluate(np.array([0.3, 1.0]), *x)", [1.3, 0.6, 0.5]),
    ("astropy.modeling.rotations", "m.Rotation2D.evaluate(np.array([0.3]), np.array([1.0]), x[0])", [0.6]),
    ("astropy.stats", "m.circmean(x)", [0.3, 0.6, 0.9]),
    ("astropy.stats", "m.biweight_location(x)", [0.3, 0.6, 0.9, 1.3]),
    ("astropy.stats", "m.mad_std(x)", [0.3, 0.6, 0.9, 1.7]),
    ("astropy.coordinates", "m.cartesian_to_spherical(*x)[0].value", [0.3, 0.6, 0.9]),
    ("astropy.cosmology", "m.FlatLambdaCDM(70, 0.3).efunc(x)", [0.3, 0.6, 0.9]),
    ("colour", "m.XYZ_to_Lab(x)", [0.2065, 0.1219, 0.0513]),
    ("colour", "m.XYZ_to_sRGB(x)", [0.2065, 0.1219, 0.0513]),
    ("colour", "m.delta_E(x[:3], x[3:])", [48.99, -0.107, 400.6, 50.65, -0.115, 402.8]),
    ("colour", "m.sRGB_to_XYZ(x)", [0.45, 0.31, 0.12]),
    ("colour", "m.XYZ_to_CAM16(x, [95.05, 100.0, 108.88], 318.31, 20.0).J", [19.01, 20.0, 21.78]),
    ("colour", "m.RGB_to_HSV(x)", [0.45, 0.03, 0.04]),
    ("colour", "m.XYZ_to_Luv(x)", [0.2065, 0.1219, 0.0513]),
    ("colour.colorimetry", "m.luminance(x)", [12.0]),
    ("colour.adaptation", "m.chromatic_adaptation_VonKries(x, [0.95, 1.0, 1.09], [1.1, 1.0, 0.36])", [0.2, 0.12, 0.14]),
    ("skfem", "m.BilinearForm(lambda u, v, w: x[0] * u * v).assemble(m.Basis(m.MeshLine(), m.ElementLineP1())).toarray()", [0.7]),
    ("skfem", "m.LinearForm(lambda v, w: np.sin(x[0] * w.x[0]) * v).assemble(m.Basis(m.MeshLine(), m.ElementLineP1()))", [0.7]),
    ("sympy", "m.lambdify(m.symbols('a b'), m.sin(m.Symbol('a')) * m.exp(m.Symbol('b')) + m.Max(m.Symbol('a'), m.Symbol('b')))(*x)", [0.7, 0.3]),
    ("sympy", "m.lambdify([m.symbols('a b')], m.Matrix([[m.Symbol('a') ** 2, m.Piecewise((m.Symbol('b'), m.Symbol('a') > 0), (1, True))]]))(x)", [0.7, 0.3]),
    ("sympy", "m.lambdify(m.symbols('a b'), m.besselj(0, m.Symbol('a')) * m.gamma(m.Symbol('b')), 'scipy')(*x)", [0.7, 0.3]),
    ("sympy", "m.lambdify(m.symbols('a b'), m.Abs(m.Symbol('a')) ** m.Symbol('b') + m.log(m.Symbol('a')), 'math')(*x)", [0.7, 0.3]),
    ("lmfit.models", "m.SkewedVoigtModel().eval(x=np.array([0.0, 1.0]), amplitude=x[0], center=x[1], sigma=x[2], gamma=0.5, skew=0.1)", [1.3, 0.2, 0.7]),
    ("lmfit.models", "m.DampedHarmonicOscillatorModel().eval(x=np.array([0.1, 1.0]), amplitude=x[0], center=x[1], sigma=x[2], gamma=0.5)", [1.3, 0.2, 0.7]),
    ("lmfit.lineshapes", "m.doniach(np.array([0.1, 1.0]), *x)", [1.3, 0.2, 0.7, 0.3]),
    ("filterpy.kalman", "m.MerweScaledSigmaPoints(2, 0.1, 2.0, 1.0).sigma_points(x, np.eye(2))", [0.3, 0.7]),
    ("filterpy.gh", "m.GHFilter(x[0], x[1], 1.0, 0.8, 0.2).update(1.5)", [0.3, 0.7]),
    ("filterpy.common", "m.van_loan_discretization(np.array([[0.0, x[0]], [-1.0, 0.0]]), np.array([[0.0], [2.0]]), 0.1)[0]", [0.7]),
    ("filterpy.discrete_bayes", "m.update(x, np.array([0.3, 0.7, 0.5]))", [0.2, 0.3, 0.5]),
]  # fmt: skip


def _function(module, expression):
    names = {"np": np, "m": importlib.import_module(module), "__name__": "published_call"}
    exec(f"def f(x):\n    return {expression}\n", names)
    return names["f"]


def _numbers(tree):
    return np.concatenate([np.ravel(np.asarray(leaf, float)) for leaf in da.tree.leaves(tree)])


def _differences(f, x):
    columns = []
    for i, size in enumerate(np.maximum(0.1, np.abs(x))):
        e = np.zeros(x.size)
        e[i] = 1e-4 * size
        near, far = [(_numbers(f(x + k * e)) - _numbers(f(x - k * e))) / (2 * k * e[i]) for k in (1, 2)]
        columns.append((4 * near - far) / 3)  # without the term of second order
    return np.stack(columns, -1)


def _agree(what, found, expected, rtol):
    scale = 1.0 + np.max(np.abs(expected), initial=0.0)
    if np.shape(found) != np.shape(expected) or not np.all(np.abs(found - expected) <= rtol * scale):
        raise AssertionError(f"{what}: {found} is not {expected}")


def check(f, x):
    """Raise what goes wrong with the derivatives, the lanes or the compiled form of a function of a vector."""
    value, jacobian = _numbers(f(x.copy())), _differences(lambda x: f(x.copy()), x)
    leaves = da.tree.leaves
    flat = lambda run: np.concatenate(
        [np.reshape(np.asarray(j, float), (-1, x.size)) for j in leaves(run(f)(x.copy()))]
    )
    _agree("value", _numbers(da.jvp(f, (x.copy(),), (np.ones_like(x),))[0]), value, 1e-10)
    _agree("forward", flat(da.jacfwd), jacobian, 1e-6)
    _agree("reverse", flat(da.jacrev), jacobian, 1e-6)
    first = lambda x: _numbers(da.jacfwd(f)(x)).reshape(-1)
    second = da.jacfwd(da.jacrev(f))(x.copy())
    _agree("second", _numbers(second), _differences(first, x).ravel(), 1e-5)
    lanes = np.stack([x, 1.01 * x, 0.99 * x])
    loop = [_numbers(f(row.copy())) for row in lanes]
    batched = leaves(da.vmap(f)(lanes.copy()))
    _agree(
        "vmap", np.concatenate([np.reshape(np.asarray(b, float), (3, -1)) for b in batched], 1), np.stack(loop), 1e-9
    )
    try:
        compiled = da.jit(f)(x.copy())
    except da.errors.DualadError as error:
        if "specialise=True" not in error.instead:
            raise
        compiled = da.jit(f, specialise=True)(x.copy())
    _agree("jit", _numbers(compiled), value, 1e-9)


def main(*only):
    """Print what is wrong or refused, and how many are right; ``only`` the modules named."""
    verdicts = collections.Counter()
    for module, expression, point in CALLS:
        if only and not module.startswith(only):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                f, x = _function(module, expression), np.array(point)
                _numbers(f(x.copy()))
            except ImportError:
                verdicts["not installed"] += 1
                continue
            except Exception as error:
                verdicts["not callable"] += 1
                print(f"{module}: {expression}\n    itself: {type(error).__name__}: {error}", flush=True)
                continue
            try:
                check(f, x)
            except Exception as error:
                verdict = "wrong" if isinstance(error, AssertionError) else "refused"
                verdicts[verdict] += 1
                print(f"{module}: {expression}\n    {verdict}: {type(error).__name__}: {str(error)[:600]}", flush=True)
            else:
                verdicts["right"] += 1
    print(dict(verdicts))


if __name__ == "__main__":
    main(*sys.argv[1:])
