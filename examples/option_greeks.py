"""The greeks of a whole option chain: derivatives of one scalar formula, batched over every contract.

`price` is the Black-Scholes formula as a textbook prints it, for one call option and in plain SciPy. `dualad.grad`
differentiates it by four of its arguments at once, `dualad.vmap` runs that over 7 strikes x 4 maturities with their own
volatilities, and gradients of gradients give gamma and vanna. No loop, no formula for any greek.

Look at the table: delta falls from 1 to 0 across the strikes, gamma and vega peak at the money. The tests compare all
six greeks with their closed forms to 12 digits.
"""

import numpy as np
from scipy.special import ndtr

import dualad as da

SPOT, RATE = 100.0, 0.03
STRIKES = np.array([70.0, 80.0, 90.0, 100.0, 110.0, 120.0, 130.0])
YEARS = np.array([0.1, 0.25, 1.0, 2.0])


def price(spot, strike, years, rate, vol):
    """Black-Scholes value of a European call."""
    spread = vol * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + 0.5 * vol**2) * years) / spread
    return spot * ndtr(d1) - strike * np.exp(-rate * years) * ndtr(d1 - spread)


def smile(strike, years):
    """An implied volatility for each contract: lowest at the money, steeper for short maturities."""
    return 0.2 + 0.1 * np.log(strike / SPOT) ** 2 / np.sqrt(years)


def delta(spot, strike, years, rate, vol):
    return da.grad(price)(spot, strike, years, rate, vol)


def chain():
    """Strike, maturity and volatility of each contract, as flat arrays."""
    strikes, years = (grid.ravel() for grid in np.meshgrid(STRIKES, YEARS))
    return strikes, years, smile(strikes, years)


def main():
    strikes, years, vols = chain()
    contract = (None, 0, 0, None, 0)  # spot and rate are shared, the other three differ from contract to contract
    point = (SPOT, strikes, years, RATE, vols)
    first = da.value_and_grad(price, argnums=(0, 2, 3, 4))
    value, (slope, decay, rho, vega) = da.vmap(first, contract)(*point)
    gamma, vanna = da.vmap(da.grad(delta, argnums=(0, 4)), contract)(*point)
    greeks = {"value": value, "delta": slope, "theta": -decay, "rho": rho, "vega": vega}
    greeks |= {"gamma": gamma, "vanna": vanna}

    print("maturity 1 year\n" + " strike" + "".join(f"{name:>10}" for name in greeks))
    for i in np.flatnonzero(years == 1.0):
        print(f"{strikes[i]:7.0f}" + "".join(f"{column[i]:10.4f}" for column in greeks.values()))
    return {"strikes": strikes, "years": years, "vols": vols, **greeks}


__dualad__ = {
    "price": [(100.0, 90.0, 0.25, 0.03, 0.2), (100.0, 130.0, 2.0, 0.03, 0.25)],
    "smile": [(80.0, 0.25), (STRIKES, YEARS[:1])],
}

if __name__ == "__main__":
    main()
