"""Exact values of what `ddpm data generate` draws from: closed forms, and sums over all states of small lattices.

The sources of the formulas are named in docs/generate.md. Lattices are periodic, actions and couplings those of that page.
"""

import itertools

import numpy as np
from scipy import special


def derivative(function, at, step=1e-5):
    """By differences of both sides, in extended precision."""
    at, step = np.longdouble(at), np.longdouble(step)
    return float((function(at + step) - function(at - step)) / (2 * step))


def log_sum(terms):
    """ln of the sum of sign * exp(logarithm) for pairs (sign, logarithm)."""
    largest = max(logarithm for _, logarithm in terms)
    return largest + np.log(sum(sign * np.exp(logarithm - largest) for sign, logarithm in terms))


def kaufman_log_z(height, width, beta):
    """ln Z of the Ising model on a torus: Kaufman, Physical Review 76, 1232 (1949)."""
    order = np.arange(2 * width)
    wave = np.cos(order * np.longdouble(np.pi) / width)
    gamma = np.arccosh(np.maximum(np.cosh(2 * beta) ** 2 / np.sinh(2 * beta) - wave, 1))
    gamma[0] = 2 * beta + np.log(np.tanh(beta))
    half = height * gamma / 2
    cosh = np.abs(half) + np.log1p(np.exp(-2 * np.abs(half)))
    sinh = np.abs(half) + np.log1p(-np.exp(-2 * np.abs(half)))
    terms = [(1, cosh[1::2].sum()), (1, sinh[1::2].sum()), (1, cosh[0::2].sum()), (np.sign(half[0]), sinh[0::2].sum())]
    return height * width / 2 * np.log(2 * np.sinh(2 * beta)) - np.log(np.longdouble(2)) + log_sum(terms)


def ising_energy(height, width, beta):
    """<-s_x s_y> summed over both bonds of a site."""
    return -derivative(lambda b: kaufman_log_z(height, width, b), beta) / (height * width)


def ising_layers_energy(sides, beta):
    """The same by the transfer matrix of all states of a layer, for a layer of few sites in one dimension or two."""
    length, layer = sides[0], sides[1:]
    states = np.array(list(itertools.product((-1.0, 1.0), repeat=int(np.prod(layer))))).reshape(-1, *layer)
    within = sum((states * np.roll(states, 1, axis)).sum(axis=tuple(range(1, states.ndim))) for axis in range(1, states.ndim))
    flat = states.reshape(len(states), -1)
    exponent = (within[:, None] + within[None, :]) / 2 + flat @ flat.T
    weights = np.exp(beta * exponent - np.max(beta * exponent))
    power = np.linalg.matrix_power(weights, length - 1)
    return -float((weights * exponent * power.T).sum() / (weights * power.T).sum()) * length / (length * flat.shape[1])


def u1_plaquette(beta, plaquettes):
    """<cos theta_P> on a torus: Z is the sum of I_k(beta)^plaquettes over all k; I_1 / I_0 for many plaquettes."""
    k = np.arange(-60, 61)
    bessel = special.ive(k, beta)
    slope = (special.ive(k - 1, beta) + special.ive(k + 1, beta)) / 2
    weights = (bessel / bessel.max()) ** (plaquettes - 1)
    return float((weights * slope).sum() / (weights * bessel).sum())


def u1_charge_squared(beta, plaquettes):
    """<Q²> of the topological charge, the sum of plaquettes' angles in (-pi, pi] over 2 pi: by the Fourier transform of f."""
    angle = np.linspace(-np.pi, np.pi, 20001)
    weight = np.exp(beta * (np.cos(angle) - 1))
    step = np.pi / 200

    def log_z(t):  # Z(theta) = integral over the constraint's k of c(k + theta / 2 pi)^plaquettes
        k = np.arange(-40, 41)[:, None] + t / (2 * np.pi)
        c = np.trapezoid(weight * np.cos(k[..., None] * angle), angle, axis=-1)
        return (np.sign(c) ** plaquettes * np.abs(c / np.trapezoid(weight, angle)) ** plaquettes).sum(axis=0)

    z = log_z(step * np.arange(-2, 3))
    return float(np.dot([1, -16, 30, -16, 1], z) / (12 * step**2) / z[2])  # the second derivative, to the fourth order


def su2_plaquette(beta, plaquettes):
    """<Tr U_P / 2> on a torus: Z is the sum of (2 I_n(beta) / beta)^plaquettes over n = 1, 2, ...; I_2 / I_1 for many."""
    n = np.arange(1, 80)
    bessel = special.ive(n, beta)
    slope = (special.ive(n - 1, beta) + special.ive(n + 1, beta)) / 2 - bessel / beta
    weights = (bessel / bessel.max()) ** (plaquettes - 1)
    return float((weights * slope).sum() / (weights * bessel).sum())


def lattice_momenta(sides):
    """k hat squared, the sum of 4 sin²(k / 2) over the axes, of each frequency of numpy.fft.fftn."""
    axes = [4 * np.sin(np.pi * np.arange(side) / side) ** 2 for side in sides]
    return sum(np.meshgrid(*axes, indexing="ij"))


def phi4_moments(length, mass_squared, coupling, points=14, reach=2.3):
    """<phi²>, <phi^4> and <phi(x) phi(x + 1)> of a lattice of `length` x 3 sites, by the transfer matrix of lines of three sites.

    Integrals are sums over equidistant points, whose error falls exponentially for smooth functions that vanish at the ends.
    """
    phi = np.linspace(-reach, reach, points)
    line = np.array(list(itertools.product(phi, repeat=3)))
    within = (0.5 * mass_squared * line**2 + coupling * line**4 + 0.5 * (line - np.roll(line, 1, 1)) ** 2).sum(axis=1)
    step = np.exp(-0.5 * (phi[:, None] - phi[None, :]) ** 2)
    between = np.einsum("ad,be,cf->abcdef", step, step, step).reshape(points**3, points**3)
    half = np.exp(-(within - within.min()) / 2)
    transfer = half[:, None] * between * half[None, :]
    power = np.linalg.matrix_power(transfer, length - 1)
    whole = power @ transfer
    z = np.trace(whole)
    neighbours = (transfer * np.outer(line[:, 0], line[:, 0]) * power.T).sum() / z
    diagonal = np.diag(whole) / z
    return float(diagonal @ line[:, 0] ** 2), float(diagonal @ line[:, 0] ** 4), float(neighbours)
