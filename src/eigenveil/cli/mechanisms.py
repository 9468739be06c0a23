"""`eigenveil mechanisms` lists the mechanisms and the papers with their calls; `eigenveil audit` tests a mechanism."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from .messages import facts_table, note_console, output_console, print_json, print_table
from .options import Adjacency, AsJson

if TYPE_CHECKING:
    from ..audit import AuditReport

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
    """List the mechanisms, their guarantees and when to use them."""
    from ..mechanisms import MECHANISMS

    cards: list[dict[str, Any]]
    if papers:
        cards = [one._asdict() for one in PAPERS]
    else:
        cards = [
            {
                "name": mechanism.name,
                "releases": mechanism.releases,
                "privacy": mechanism.privacy(),
                "numerics": mechanism.numerics_in_words(),
                "source": mechanism.source,
                "use_when": mechanism.use_when,
                "calibrations": mechanism.calibrations,
            }
            for mechanism in MECHANISMS.values()
        ]
    if as_json:
        print_json(cards)
        return
    console = output_console()
    for card in cards:
        shown = ("paper", "recommended") if papers else ("use_when", "releases", "privacy", "numerics", "source")
        facts = facts_table((heading.replace("_", " ").capitalize(), card[heading]) for heading in shown)
        print_table(console, f"\n{card['name']}", facts)
        if papers:
            console.print(card["call"], soft_wrap=True)
    console.print("")
    if papers:
        for name, value in SHORTHANDS.items():
            console.print(f"{name} = {value}", soft_wrap=True)
        console.print("All calls with their theorems, and what is not as printed: docs/reference/papers.md")
    else:
        console.print("auto chooses from public numbers: docs/explanation/choosing.md")


# `eigenveil audit`.

VIOLATION_EXIT_CODE = 3
_VERDICTS = {
    "violation": "violation: the claim is refuted",
    "consistent": "consistent: the claim is not refuted, which does not prove it",
}


def audit(
    name: Annotated[
        str,
        typer.Argument(help="A mechanism, or local:MECHANISM for a report of a client."),
    ],
    epsilon: Annotated[float, typer.Option(help="ε that the mechanism claims.")] = 1.0,
    delta: Annotated[float, typer.Option(help="δ that the mechanism claims.")] = 0.0,
    features: Annotated[int, typer.Option(help="Number of features; audits are strongest with few.")] = 2,
    components: Annotated[int | None, typer.Option(help="Number of components to release.")] = None,
    adjacency: Adjacency = "replace_one",
    calibration: Annotated[
        Literal["tight", "paper"] | None,
        typer.Option(help="Constants: tight, or paper for the published ones."),
    ] = None,
    at_delta: Annotated[
        float | None, typer.Option(help="δ at which ε is bounded. Default: 0 for pure claims, else at least 0.01.")
    ] = None,
    draws: Annotated[int, typer.Option(help="Outputs drawn from each of the two data sets.")] = 20_000,
    confidence: Annotated[float, typer.Option(help="Confidence of the bound, over all tests together.")] = 0.99,
    workers: Annotated[int | None, typer.Option(help="Number of processes. Default: all cores.")] = None,
    json: AsJson = False,
) -> None:
    """Try to refute the privacy claim of a mechanism. Exit code 3: refuted; 0: not refuted."""
    from ..audit.subjects import names, subject_for
    from ..errors import InvalidParameterError, one_of
    from ..mechanisms import MECHANISMS

    one_of("name", name, names())
    parameters: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "n_features": features}
    if name in MECHANISMS:
        parameters |= {"n_components": components, "adjacency": adjacency, "calibration": calibration}
        # Constants that are not private may be audited.
        parameters |= {"allow_unsound": True} if calibration in MECHANISMS[name].unsound_calibrations else {}
    else:
        given = {"components": components, "calibration": calibration, "adjacency": adjacency != "replace_one"}
        extra = [option for option, value in given.items() if value]
        if extra:
            raise InvalidParameterError(f"{name} takes no --{extra[0]}; leave it out.")
    subject = subject_for(name, parameters)
    report = audited(subject, delta=at_delta, confidence=confidence, draws=draws, workers=workers, hidden=json)
    show(report, json=json)
    if report.verdict == "violation":
        raise typer.Exit(VIOLATION_EXIT_CODE)


def audited(subject: Any, *, workers: int | None = None, hidden: bool = False, **options: Any) -> "AuditReport":
    """Return the result of `eigenveil.audit.audit`, with a progress bar on a terminal; on all cores by default."""
    # Not at the top: a device that encodes a row should not load any of this.
    import os

    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from ..audit import audit as run_audit

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    screen = note_console()
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, disable=hidden or not screen.is_terminal) as bar:
        task = bar.add_task(f"auditing {getattr(subject, 'name', subject)}", total=None)
        return run_audit(
            subject,
            workers=cores if workers is None else workers,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
            **options,
        )


def show(report: "AuditReport", *, json: bool) -> None:
    """Print a report as a table, or as JSON."""
    import json as json_format

    if json:
        typer.echo(json_format.dumps(report.to_dict(), indent=1))
        return
    counts = zip(report.counts, report.draws, strict=True)
    facts = [
        ("Verdict", _VERDICTS.get(report.verdict, report.verdict)),
        ("Lower bound", f"ε ≥ {report.epsilon_lower:.4g} at δ = {report.delta:g}, confidence {report.confidence:.10g}"),
        ("Claim", f"ε = {report.claimed:.4g} ({report.claimed_by})"),
        ("Tightness", f"{report.tightness:.3f} (lower bound / claim)"),
        ("Neighbours", f"{report.neighbours} (of {report.n_searched} pairs searched)"),
        ("Event", report.event),
        ("Counts", " against ".join(f"{count} of {draws}" for count, draws in counts)),
    ]
    if report.impossible:
        facts.append(("Support", f"outputs impossible for one data set: probability at least {report.impossible:.3g}"))
    print_table(output_console(), f"Audit of {report.name}", facts_table(facts))
