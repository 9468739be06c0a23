"""`eigenveil mechanisms`: the table of mechanisms, by the facts that they declare, and the papers with their calls."""

import textwrap
from typing import Annotated, Any, NamedTuple

import typer

from .options import AsJson, output_console, print_json

_HEADINGS = ("use_when", "releases", "privacy", "numerics", "source")
_WIDTH, _INDENT = 70, 13

Papers = Annotated[
    bool, typer.Option("--papers", help="List the algorithms of the papers instead, each with its shortest call.")
]


class PublishedAlgorithm(NamedTuple):
    """An algorithm of a paper, the shortest call that runs it as it is published, and what is better.

    Calls have the shorthands of `SHORTHANDS`; docs/reference/papers.md shows the same calls, and a test runs them.
    """

    name: str
    paper: str
    call: str
    recommended: str


SHORTHANDS = {
    "rows": '{"center": False, "norm_bound": 1.0}',
    "paper": '{"calibration": "paper", "accept_inexact": True}',
}
PAPERS = (
    PublishedAlgorithm(
        "MOD-SULQ",
        "Chaudhuri, Sarwate, Sinha 2012, 2013",
        'PrivatePCA(1, epsilon=1.0, delta=1e-6, mechanism="mod_sulq", **rows).fit(X)',
        "gaussian: about d times less noise",
    ),
    PublishedAlgorithm(
        "PPCA",
        "Chaudhuri, Sarwate, Sinha 2012, 2013",
        'PrivatePCA(2, epsilon=1.0, mechanism="ppca", mechanism_options=paper, **rows).fit(X)',
        "auto; ppca for one component and few rows",
    ),
    PublishedAlgorithm(
        "Laplace mechanism",
        "Jiang, Xie, Zhang 2016; Amin et al. 2018",
        'PrivateCovariance(epsilon=1.0, mechanism="laplace", mechanism_options=paper, **rows).fit(X)',
        "matrix_laplace: noise of order d, not d^1.5",
    ),
    PublishedAlgorithm(
        "Wishart mechanism",
        "Jiang, Xie, Zhang 2016",
        'PrivatePCA(1, epsilon=1.0, delta=1e-6, mechanism="wishart", **rows).fit(X)',
        "matrix_laplace, or gaussian; this call is the corrected form, since the published one is not private",
    ),
    PublishedAlgorithm(
        "Iterative eigenvector sampling",
        "Amin et al. 2018",
        'PrivateCovariance(epsilon=1.0, mechanism="eigenvector_sampling", mechanism_options=paper, **rows).fit(X)',
        "matrix_laplace: less noise, exact",
    ),
    PublishedAlgorithm(
        "Exponential mechanism (baseline)",
        "Amin et al. 2018",
        'PrivateCovariance(epsilon=1.0, mechanism="frobenius", mechanism_options=paper, **rows).fit(X)',
        "matrix_laplace: less noise, exact",
    ),
    PublishedAlgorithm(
        "Gaussian mechanism (baseline)",
        "Amin et al. 2018",
        'PrivateCovariance(epsilon=0.5, delta=1e-6, mechanism="gaussian", mechanism_options=paper, **rows).fit(X)',
        "gaussian with our constants",
    ),
    PublishedAlgorithm(
        "Ridge regression from a private covariance",
        "Amin et al. 2018",
        'PrivateRidge(0.1, epsilon=1.0, mechanism="laplace", fit_intercept=False, norm_bound=2.0).fit(X, X[:, 0])',
        "PrivateRidge with its defaults",
    ),
    PublishedAlgorithm(
        "Local Gaussian mechanism",
        "Wang, Xu 2019, Algorithm 1",
        'LocalPCA(1, epsilon=1.0, delta=1e-6, mechanism="gaussian_paper", norm_bound=1.0).fit(X)',
        "LocalPCA with its default",
    ),
    PublishedAlgorithm(
        "Local sparse PCA",
        "Wang, Xu 2019, Algorithm 2",
        'LocalSparsePCA(1, epsilon=1.0, delta=1e-6, mechanism="gaussian_paper", norm_bound=1.0).fit(X)',
        "LocalSparsePCA with its default",
    ),
)


def mechanisms(as_json: AsJson = False, papers: Papers = False) -> None:
    """List the mechanisms: what they release, their guarantee and when to use them."""
    from ..mechanisms import MECHANISMS

    if papers:
        _print_papers(as_json)
        return
    cards = [_card(mechanism) for mechanism in MECHANISMS.values()]
    if as_json:
        print_json(cards)
        return
    console = output_console()
    for card in cards:
        console.print(card["name"], style="bold")
        _print_facts({heading: card[heading] for heading in _HEADINGS})
    console.print("auto chooses from public numbers: docs/explanation/choosing.md")


def _print_papers(as_json: bool) -> None:
    if as_json:
        print_json([one._asdict() for one in PAPERS])
        return
    console = output_console()
    for one in PAPERS:
        console.print(one.name, style="bold")
        _print_facts({"paper": one.paper, "instead": one.recommended})
        console.print(f"  {one.call}", soft_wrap=True, markup=False, highlight=False)
    for name, value in SHORTHANDS.items():
        console.print(f"{name} = {value}", soft_wrap=True, markup=False, highlight=False)
    console.print("All calls with their theorems, and what is not as printed: docs/reference/papers.md")


def _print_facts(facts: dict[str, str]) -> None:
    console = output_console()
    for heading, fact in facts.items():
        # Two columns that fit any terminal.
        for number, line in enumerate(textwrap.wrap(str(fact), _WIDTH - _INDENT)):
            label = heading.replace("_", " ").capitalize() if number == 0 else ""
            console.print(f"  {label:<{_INDENT - 2}}{line}", soft_wrap=True)


def _card(mechanism: Any) -> dict[str, Any]:
    return {
        "name": mechanism.name,
        "releases": mechanism.releases,
        "privacy": mechanism.privacy(),
        "numerics": mechanism.numerics_in_words(),
        "source": mechanism.source,
        "use_when": mechanism.use_when,
        "calibrations": list(mechanism.calibrations),
    }
