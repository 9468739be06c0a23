"""`eigenveil federation invite | join | close | contribute | combine`: one release of several sites."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InvalidParameterError
from .fitting import Data, number_of_components
from .ledger import confirm, guarantee_fields, ledger_files, open_ledger
from .messages import facts_table, note_console, output_console, print_json, print_table
from .options import (
    Adjacency,
    AsJson,
    Center,
    Decimal,
    Delimiter,
    Delta,
    Encoding,
    Engine,
    Force,
    Quiet,
    Standardize,
    Weight,
    Yes,
    check_output,
)
from .tables import expand, open_declared, text_format
from .terminal import HeldSignals, busy, fit_progress

if TYPE_CHECKING:
    from ..federation import Round


RoundFile = Annotated[Path, typer.Argument(metavar="ROUND", help="Closed round file (.json).")]


def invite(
    output: Annotated[Path, typer.Option("--output", "-o", help="Draft round to write (.json).")],
    site: Annotated[list[str] | None, typer.Option(help="Public name of a site. Repeat it for every site.")] = None,
    schema: Annotated[Path | None, typer.Option(help="Schema file (.yaml), the same at every site.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Privacy budget ε that every site spends, such as 1.")] = None,
    delta: Delta = 0.0,
    adjacency: Adjacency = "replace_one",
    mechanism: Annotated[str, typer.Option(help="auto, gaussian or matrix_laplace.")] = "auto",
    components: Annotated[
        Any,
        typer.Option("--components", "-k", parser=number_of_components, metavar="K", help="As in `eigenveil pca`."),
    ] = None,
    norm_bound: Annotated[float | None, typer.Option(help="Public clipping bound on the norm of a row.")] = None,
    standardize: Standardize = False,
    center: Center = True,
    unit_weight: Annotated[
        Weight, typer.Option(help="With a privacy unit in the schema: weight of the units.")
    ] = "equal",
    colluding: Annotated[int, typer.Option(help="Number of sites that may collude with the coordinator.")] = 1,
    quorum: Annotated[int | None, typer.Option(help="Least number of sites for a round. Default: all.")] = None,
    purpose: Annotated[str, typer.Option(help="Public name of the round.")] = "",
    again: Annotated[Path | None, typer.Option(help="Round file to repeat with the same terms and new keys.")] = None,
    without: Annotated[list[str] | None, typer.Option(help="With --again: a site to leave out.")] = None,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Draft a round: its sites, model and privacy budget. The draft contains no private data."""
    from ..federation import Round
    from ..federation import invite as drafted

    check_output(output, force)
    if again is not None:
        if site or schema or epsilon is not None:
            raise InvalidParameterError(
                "--again repeats a round with the same terms; leave out --site, --schema and --epsilon."
            )
        draft = Round.load(again).again(without or ())
    else:
        if schema is None or epsilon is None or not site:
            raise InvalidParameterError(
                "A round needs --schema, --epsilon and --site; give --site once for every site."
            )
        from ..estimators import PrivatePCA
        from ..tables.schema import Schema

        model = PrivatePCA(
            components,
            epsilon=epsilon,
            delta=delta,
            adjacency=adjacency,
            mechanism=mechanism,
            norm_bound=norm_bound,
            standardize=standardize,
            center=center,
            unit_weight=unit_weight,
            schema=Schema.load(schema),
        )
        draft = drafted(model, site, n_colluding=colluding, quorum=quorum, purpose=purpose)
    draft.save(output)
    _show(draft, output, as_json, quiet)


def join(
    draft: Annotated[Path, typer.Argument(help="Draft round of the invitation (.json).")],
    site: Annotated[str, typer.Option(help="Name of this site.")],
    key: Annotated[Path, typer.Option(help="File for the private keys, which stay at this site.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Draft round to write, with the public keys (.json).")],
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Make keys for one round and add the public ones to the draft."""
    from ..federation import Round, SiteKeys

    check_output(output, force, [key])
    invited = Round.load(draft)
    keys = SiteKeys.create(site, invited.terms)
    joined = keys.join(invited)
    keys.save(key)
    joined.save(output)
    note_console(quiet).print(
        f"Draft: {output} (send it to the site that closes the round)\nKeys: {key} (keep them; they are used once)",
        soft_wrap=True,
    )


def close(
    drafts: Annotated[list[Path], typer.Argument(help="Drafts that the sites have joined.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Round file to write (.json).")],
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Close a round with the sites that joined. Prints its fingerprint."""
    from ..federation import Round

    check_output(output, force, drafts)
    first, *others = map(Round.load, drafts)
    agreed = first.close(others)
    agreed.save(output)
    _show(agreed, output, as_json, quiet)


def contribute(
    agreed: RoundFile,
    data: Data,
    key: Annotated[Path, typer.Option(help="Key file of this site; it can be used once.")],
    fingerprint: Annotated[
        str, typer.Option(help="Fingerprint of the round, confirmed with the other sites over another channel.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Contribution file to write.")],
    ledger: Annotated[Path | None, typer.Option(help="Ledger of this site that records the spend.")] = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    engine: Engine = None,
    yes: Yes = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write the noisy sums of this site, masked and signed."""
    from ..federation import Round, SiteKeys
    from ..federation import contribute as contributed

    paths = expand(data)
    check_output(output, force, [*paths, agreed, key, *ledger_files(ledger)])
    joined = Round.load(agreed)
    if fingerprint.strip().lower() != joined.fingerprint:
        raise InvalidParameterError(
            f"--fingerprint does not match the round file {agreed}; ask the other sites before you contribute."
        )
    SiteKeys.load(key).check(joined)
    book = open_ledger(ledger)
    written = text_format(delimiter, decimal, encoding)
    table = open_declared(paths, {"schema": joined.terms.schema}, written, engine, quiet)
    if book is not None:
        book.check(joined.guarantee())
    confirm(joined.guarantee(), book, [], output, yes=yes, hidden=quiet)
    with HeldSignals(book) as signals:
        with fit_progress(table.source, quiet):
            contributed(joined, key, table.source, output, ledger=book, overwrite=force)
        signals.written = output
    note_console(quiet).print(f"Contribution: {output} (it may be sent more than once)", soft_wrap=True)


def combine(
    agreed: RoundFile,
    contributions: Annotated[list[Path], typer.Argument(help="Contribution files, one of each site.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Release file to write (.npz).")] = Path("release.npz"),
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Combine the contributions of all sites into one release. Spends nothing."""
    from ..federation import Round
    from ..federation import combine as combined

    check_output(output, force, [agreed, *contributions])
    with busy("combining contributions", quiet or as_json):
        release = combined(Round.load(agreed), contributions)
    release.save(output)
    if as_json:
        print_json(
            {
                "release": str(output),
                "guarantee": guarantee_fields(release.guarantee),
                "mechanism": release.origin.mechanism,
            }
        )
    elif not quiet:
        facts = [
            ("Privacy", str(release.guarantee)),
            *(("Assumes", assumption) for assumption in release.guarantee.assumptions),
            ("Release", f"{output} (eigenveil show {output})"),
        ]
        output_console().print(facts_table(facts))


def _show(draft: "Round", output: Path, as_json: bool, quiet: bool) -> None:
    guarantee = draft.guarantee() if draft.closed else draft.terms.guarantee()
    if as_json:
        print_json(
            {
                "round": str(output),
                "closed": draft.closed,
                "fingerprint": draft.fingerprint,
                "sites": list(draft.sites if draft.closed else draft.terms.invited),
                "missing": list(draft.missing),
                "mechanism": draft.terms.mechanism,
                "guarantee": guarantee_fields(guarantee),
            }
        )
    if as_json or quiet:
        return
    facts = [("Sites", ", ".join(draft.sites if draft.closed else draft.terms.invited))]
    if draft.missing and draft.closed:
        facts.append(("Left out", ", ".join(draft.missing)))
    facts += [
        ("Features", str(draft.terms.schema.n_features)),
        ("Mechanism", draft.terms.mechanism),
        ("Privacy", str(guarantee)),
        *(("Assumes", assumption) for assumption in guarantee.assumptions),
        ("File", str(output)),
    ]
    console = output_console()
    print_table(console, "Round" if draft.closed else "Draft of a round", facts_table(facts))
    if draft.closed:
        console.print(f"Fingerprint: {draft.fingerprint}", soft_wrap=True)
        console.print("Before you contribute, compare the fingerprint with the other sites over another channel.")
