"""The true privacy loss of the eigenvector samplers of diffprivlib and OpenDP, by quadrature. Needs neither package.

    python benchmarks/peers_quadrature.py --output peers_quadrature.json

Both draw from the density exp(-s) (1 + 2s/b)^(-d), s = u'Au, on the sphere (docs/explanation/peers.md).
Its normalizer is

    Z = E[Phi((1 + 2R/b) a)],   R ~ Gamma(d),   Phi(a) = E exp(-sum a_i u_i^2),   u uniform on the sphere,

because (1 + 2s/b)^(-d) is the mean of exp(-2Rs/b). R takes a Gauss-Laguerre rule, and Phi is an inverse Laplace
transform, Gamma(d/2)/(2 pi i) times the integral of e^z prod (z + a_i)^(-1/2), on Talbot's contour.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, roots_genlaguerre

from peers_audit import DrawnMechanism

DIMENSIONS = (2, 3, 4, 5, 6, 8, 10, 15, 20)
FAR = 1e6  # the other eigenvalues lie so far below the leading two; the loss grows with it towards a limit
_NODES = 48
_LAGUERRE = 60


def log_bingham_normalizer(gaps: np.ndarray) -> np.ndarray:
    """Return log E exp(-sum a_i u_i^2) over the uniform distribution of the sphere, for each row of gaps."""
    # Weideman's parameters of the contour (2006): the error falls by about 0.26 a node.
    angle = (2 * np.arange(_NODES) + 1) * np.pi / _NODES - np.pi
    tangent, sine = np.tan(0.6407 * angle), np.sin(0.6407 * angle)
    z = _NODES * (0.5017 * angle / tangent - 0.6122 + 0.2645j * angle)
    slope = 0.5017 / tangent - 0.5017 * 0.6407 * angle / sine**2 + 0.2645j
    products = np.exp(-0.5 * np.log(z[:, None] + gaps[..., None, :]).sum(axis=-1))
    return gammaln(gaps.shape[-1] / 2) + np.log((products * np.exp(z) * slope / 1j).sum(axis=-1).real)


def log_normalizer(mechanism: DrawnMechanism, power: int) -> float:
    """Return log E exp(-s) (1 + 2s/b)^(-power): a power of d is what the packages draw, 0 the Bingham distribution."""
    if power == 0:
        return float(log_bingham_normalizer(mechanism.gaps))
    nodes, weights = roots_genlaguerre(_LAGUERRE, power - 1)
    kept = weights > 0  # the last weights underflow
    spread = (1 + 2 * nodes[kept] / mechanism.width)[:, None] * mechanism.gaps
    return float(np.logaddexp.reduce(log_bingham_normalizer(spread) + np.log(weights[kept])) - gammaln(power))


def loss(C: np.ndarray, other: np.ndarray, epsilon: float, power: int | None = None) -> float:
    """Return the largest |log ratio| of the two densities, over all directions.

    The log density falls with s. So the log ratio is largest on the edge of the convex set of points (s, s') that
    directions reach, where u is a leading eigenvector of w A' - (1 - w) A, or a mixture of two of them.
    """
    power = len(C) if power is None else power
    mechanisms = DrawnMechanism(C, epsilon), DrawnMechanism(other, epsilon)
    constants = [log_normalizer(mechanism, power) for mechanism in mechanisms]
    shares = np.linspace(0, 1, 201)[:, None, None]
    mix = np.linspace(0, 1, 33)[:, None]
    largest = -np.inf
    for i, j in ((0, 1), (1, 0)):
        u = np.linalg.eigh(shares * mechanisms[j].form - (1 - shares) * mechanisms[i].form)[1][:, :, -1]
        points = [np.einsum("ni,ij,nj->n", u, mechanisms[k].form, u) for k in (i, j)]
        s, t = ((1 - mix) * p[:-1] + mix * p[1:] for p in points)
        ratio = mechanisms[i].log_density(s, power=power) - mechanisms[j].log_density(t, power=power)
        largest = max(largest, float(ratio.max()) - constants[i] + constants[j])
    return largest


def neighbours(d: int, gap: float, *, replace: bool = True, far: float = FAR) -> tuple[np.ndarray, np.ndarray]:
    """Return diag(T + gap, T, 0, ...) and what it becomes when a row e1 is added, in place of a row e2 or not."""
    first = np.zeros(d)
    first[:2] = far + gap, far
    second = first.copy()
    second[0] += 1
    second[1] -= replace
    return np.diag(first), np.diag(second)


def worst(d: int, epsilon: float = 1.0, *, replace: bool = True, far: float = FAR, power: int | None = None):
    """Return the largest loss over the gap of the two leading eigenvalues, and that gap."""
    found = minimize_scalar(
        lambda gap: -loss(*neighbours(d, gap, replace=replace, far=far), epsilon, power),
        bounds=(-1 if replace else 0, 8 / epsilon),
        method="bounded",
    )
    return -float(found.fun), float(found.x)


def great_circle_loss(d: int, gap: float, epsilon: float = 1.0) -> float:
    """Return the loss if only the circle of the two leading eigenvectors existed: not what is drawn for d > 2."""
    logs = []
    for C in neighbours(d, gap):
        mechanism = DrawnMechanism(C, epsilon)
        lead = mechanism.gaps[-2]
        mass = quad(
            lambda angle, mechanism=mechanism, lead=lead: np.exp(mechanism.log_density(lead * np.sin(angle) ** 2)),
            0,
            np.pi,
        )[0]
        logs.append(mechanism.log_density(np.array([0.0, lead])) - np.log(mass))
    return float(np.abs(logs[0] - logs[1]).max())


def draw_as_coded(C: np.ndarray, epsilon: float, n: int, generator: np.random.Generator, sign: int = -1) -> np.ndarray:
    """Draw by the packages' proposal and acceptance; sign = +1 multiplies by (u'Omega u)^(d/2), as it should be."""
    mechanism, d = DrawnMechanism(C, epsilon), len(C)
    omega = np.linalg.inv(np.eye(d) + 2 * mechanism.form / mechanism.width)
    log_bound = -(d - mechanism.width) / 2 + d / 2 * np.log(d / mechanism.width)
    found: list[np.ndarray] = []
    while sum(map(len, found)) < n:
        z = generator.multivariate_normal(np.zeros(d), omega, size=n)
        u = z / np.linalg.norm(z, axis=1, keepdims=True)
        s = np.einsum("ni,ij,nj->n", u, mechanism.form, u)
        log_acceptance = -s + sign * d / 2 * np.log1p(2 * s / mechanism.width) - log_bound
        found.append(u[np.log(generator.random(n)) < log_acceptance])
    return np.concatenate(found)[:n]


def row(d: int, epsilon: float) -> dict[str, float]:
    value, gap = worst(d, epsilon)
    return {
        "d": d,
        "replace_one": value,
        "gap": gap,
        "replace_one, T = 100": worst(d, epsilon, far=100)[0],
        "add_or_remove_one": worst(d, epsilon, replace=False)[0],
        "multiplied, replace_one": worst(d, epsilon, power=0)[0],
        "circle only": max(great_circle_loss(d, gap, epsilon) for gap in np.linspace(0, 4, 81)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epsilon", type=float, default=1.0, help="what is asked for and claimed")
    parser.add_argument("--output", type=Path, help="a JSON file for the numbers")
    arguments = parser.parse_args()
    rows = [row(d, arguments.epsilon) for d in DIMENSIONS]
    table = Table(title=f"True epsilon at a claimed epsilon of {arguments.epsilon:g} for one replaced row")
    for name in rows[0]:
        table.add_column(name, justify="right")
    for values in rows:
        table.add_row(*(f"{value:.3g}" if name == "d" else f"{value:.3f}" for name, value in values.items()))
    Console(width=110).print(table)
    if arguments.output:
        arguments.output.write_text(json.dumps({"epsilon": arguments.epsilon, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
