"""How close the audit's lower bounds come to the claims: the table of docs/how_to/audit.md.

    python benchmarks/audit_tightness.py [--draws N] [--local-draws N] [--epsilons 0.1 1 3] [--output FILE.json]

One audit for each line and epsilon, with the secure generator, at confidence 0.99. Where delta is 0.01 the mechanism
was made with it and is audited at it. Results are written after every audit; those already in FILE.json are not
repeated.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from eigenveil.audit import audit
from eigenveil.local import LocalProtocol
from eigenveil.mechanisms import MECHANISMS

LOCAL = (("double_cap", "unit"), ("double_cap", "any"), ("one_bit", "unit"))
# Name, features, delta, relation; one component.
CENTRAL = (
    ("frobenius", 1, 0.0, "add_or_remove_one"),
    ("matrix_laplace", 1, 0.0, "add_or_remove_one"),
    ("wishart", 1, 0.01, "add_or_remove_one"),
    ("laplace", 2, 0.0, "replace_one"),
    ("frobenius", 2, 0.0, "replace_one"),
    ("matrix_laplace", 2, 0.0, "replace_one"),
    ("gaussian", 2, 0.01, "replace_one"),
    ("wishart", 2, 0.01, "replace_one"),
    ("ppca", 2, 0.0, "replace_one"),
    ("eigenvector_sampling", 2, 0.0, "replace_one"),
)


def cases(arguments: argparse.Namespace) -> dict[str, tuple[Any, int]]:
    """Return what to audit, and how many draws, by a name that says it all."""
    found: dict[str, tuple[Any, int]] = {}
    for epsilon in arguments.epsilons:
        for name, norms in LOCAL:
            protocol = LocalProtocol(2, epsilon, mechanism=name, row_norms=norms)
            found[f"local:{name}, {norms} rows|{epsilon}"] = protocol, arguments.local_draws
        for name, d, delta, adjacency in CENTRAL:
            settings = {"epsilon": epsilon, "delta": delta, "n_features": d, "n_components": 1, "adjacency": adjacency}
            mechanism = MECHANISMS[name](**settings)  # type: ignore[arg-type]
            found[f"{name}, d = {d}, {adjacency}|{epsilon}"] = mechanism, arguments.draws
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=20_000)
    parser.add_argument("--local-draws", type=int, default=100_000)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 1.0, 3.0])
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    console = Console()
    kept: dict[str, Any] = {}
    if arguments.output and arguments.output.exists():
        kept = json.loads(arguments.output.read_text())
    for name, (subject, draws) in cases(arguments).items():
        if name not in kept:
            report = audit(subject, draws=draws)
            kept[name] = {"draws": draws, "lower": report.epsilon_lower, "claimed": report.claimed}
            kept[name] |= {"tightness": report.tightness, "verdict": report.verdict}
            if arguments.output:
                arguments.output.write_text(json.dumps(kept, indent=1) + "\n")
            console.print(f"{name}: {report.epsilon_lower:.3f} of {report.claimed:.3f}, {report.verdict}")
    table = Table(title="Lower bound (over the claim)")
    table.add_column("audited")
    for epsilon in arguments.epsilons:
        table.add_column(f"ε = {epsilon:g}", justify="right")
    for line in dict.fromkeys(name.split("|")[0] for name in kept):
        cells = [kept.get(f"{line}|{epsilon}") for epsilon in arguments.epsilons]
        table.add_row(line, *(f"{cell['lower']:.3f} ({cell['tightness']:.2f})" if cell else "" for cell in cells))
    console.print(table)


if __name__ == "__main__":
    main()
