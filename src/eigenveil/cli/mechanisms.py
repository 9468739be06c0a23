"""`eigenveil mechanisms`: the table of mechanisms, read from the table of mechanisms."""

from typing import Any

from rich.table import Table

from .common import AsJson, output_console, print_json

# Where it comes from, and when to use it. A mechanism without a line here is described by its own docstring.
NOTES = {
    "gaussian": ("Dwork et al. 2014, recalibrated", "delta > 0, many features"),
    "matrix_laplace": ("new in eigenveil", "delta = 0; the default"),
    "laplace": ("Jiang et al. 2016", "comparison; exact numerics with delta = 0"),
    "frobenius": ("Amin et al. 2018", "comparison"),
    "mod_sulq": ("Chaudhuri et al. 2013", "comparison; over-noises"),
    "wishart": ("Jiang et al. 2016, corrected", "the matrix itself must be positive semidefinite"),
    "ppca": ("Chaudhuri et al. 2013", "one direction, few rows, delta = 0"),
    "eigenvector_sampling": ("Amin et al. 2018, with its joint cost", "several directions, few rows, delta = 0"),
    "random_projection": ("baseline", "comparison: knows nothing"),
    "none": ("baseline", "comparison on public data: hides nothing"),
}


def mechanisms(as_json: AsJson = False) -> None:
    """List the mechanisms: what each releases, what it promises, where it comes from and when to use it."""
    from eigenveil.mechanisms import MECHANISMS

    cards = [_card(name, kind) for name, kind in MECHANISMS.items()]
    if as_json:
        print_json(cards)
        return
    table = Table(title="Mechanisms")
    headings = ("name", "releases", "privacy", "numerics", "paper", "use_when")
    for heading in headings:
        table.add_column(heading.replace("_", " "), no_wrap=heading == "name")
    for card in cards:
        table.add_row(*(str(card[heading]) for heading in headings))
    console = output_console()
    console.print(table)
    console.print("`auto` chooses by public numbers; docs/choosing.md tells how.")


def _card(name: str, kind: Any) -> dict[str, Any]:
    """Describe a mechanism by what it does on three made-up features."""
    one, several = _example(kind, 1), _example(kind, 2)
    promise, other = several.guarantee(), one.guarantee()
    numerics = promise.numerics.value
    if other.numerics is not promise.numerics:
        numerics = f"{other.numerics.value} for one component, {numerics} for more"
    paper, use_when = NOTES.get(name, ("", (kind.__doc__ or "").partition("\n")[0]))
    return {
        "name": name,
        "releases": _released(several),
        "privacy": _privacy(promise),
        "numerics": numerics,
        "paper": paper,
        "use_when": use_when,
        "calibrations": list(kind.calibrations),
    }


def _example(kind: Any, n_components: int) -> Any:
    from eigenveil.errors import InvalidParameterError

    parameters: dict[str, Any] = {"epsilon": 1.0, "n_features": 3, "n_components": n_components}
    try:
        return kind(**parameters)
    except InvalidParameterError:  # which says that it needs a delta
        return kind(**parameters, delta=1e-6)


def _privacy(promise: Any) -> str:
    if not promise.is_private:
        return "none"
    if promise.delta:
        return "(epsilon, delta)"
    return "epsilon" if promise.epsilon else "epsilon = 0"


def _released(mechanism: Any) -> str:
    import numpy as np

    from eigenveil.moments import SecondMoments
    from eigenveil.rows import RowBound

    release = mechanism.release(SecondMoments(RowBound(1.0, bits=8), 3).update(np.eye(3)))
    words = {"covariance": "matrix", "eigenvalues": "eigenvalues", "components": "directions"}
    return ", ".join(word for name, word in words.items() if name in release.arrays)
