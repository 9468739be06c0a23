"""`eigenveil federation invite | join | close | contribute | combine | serve | send`: many custodians, one release."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table as Grid

from ..errors import InvalidParameterError
from .fitting import Data, number_of_components
from .options import (
    Adjacency,
    AsJson,
    Decimal,
    Delimiter,
    Encoding,
    Force,
    Quiet,
    Weight,
    check_output,
    engine_names,
    note_console,
    output_console,
    print_json,
    whole_file,
)
from .spending import (
    ask,
    budget,
    guarantee_fields,
    in_words,
    ledger_fields,
    ledger_files,
    open_ledger,
    somebody_answers,
)
from .tables import expand, open_declared, text_format
from .terminal import one_bar

if TYPE_CHECKING:
    from ..federation import Round


federation_app = typer.Typer(
    help="One release of several custodians who share no rows.",
    no_args_is_help=True,
)


def _mechanism_names(incomplete: str) -> list[str]:
    from ..mechanisms.federated import FEDERATED_MECHANISMS

    return [name for name in ("auto", *FEDERATED_MECHANISMS) if name.startswith(incomplete)]


RoundFile = Annotated[Path, typer.Argument(metavar="ROUND", help="Round file, closed (.json).")]


@federation_app.command()
def invite(
    output: Annotated[Path, typer.Option("--output", "-o", help="Draft to write (.json).")],
    site: Annotated[list[str] | None, typer.Option(help="Public name of a site; one for each.")] = None,
    schema: Annotated[Path | None, typer.Option(help="Schema of the table, the same at every site (.yaml).")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Privacy budget that the release costs every site.")] = None,
    delta: Annotated[float, typer.Option(help="Delta to spend; 0 is pure differential privacy.")] = 0.0,
    adjacency: Adjacency = "replace_one",
    mechanism: Annotated[
        str, typer.Option(help="Whose noise the sites share: a mechanism, or auto.", autocompletion=_mechanism_names)
    ] = "auto",
    components: Annotated[
        Any,
        typer.Option("--components", "-k", parser=number_of_components, metavar="K", help="As of `eigenveil pca`."),
    ] = None,
    norm_bound: Annotated[float | None, typer.Option(help="Public bound on the norm of a row.")] = None,
    standardize: Annotated[bool, typer.Option("--standardize", help="Components of the correlations.")] = False,
    center: Annotated[bool, typer.Option("--center/--no-center", help="Work about the mean, or the origin.")] = True,
    unit_weight: Annotated[Weight, typer.Option(help="With persons: what counts once, a person or a row.")] = "equal",
    colluding: Annotated[
        int, typer.Option(help="Against how many sites, together with whoever combines, the promise holds.")
    ] = 1,
    quorum: Annotated[int | None, typer.Option(help="With fewer sites there is no round; all by default.")] = None,
    purpose: Annotated[str, typer.Option(help="Public name of the round.")] = "",
    deadline: Annotated[
        str | None, typer.Option(help="ISO time with its zone, after which nobody contributes.")
    ] = None,
    again: Annotated[
        Path | None, typer.Option(help="Round to repeat on the same terms with fresh keys, in place of all else.")
    ] = None,
    without: Annotated[list[str] | None, typer.Option(help="With --again: a site that is left out.")] = None,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Draft a round: what is asked, what it costs, and which sites are invited. Nothing of it is private."""
    from ..federation import Round
    from ..federation import invite as drafted

    check_output(output, force)
    if again is not None:
        if site or schema or epsilon is not None:
            raise InvalidParameterError("--again repeats a round on its own terms; leave out all but --without.")
        draft = Round.load(again).again(without or (), deadline)
    else:
        if schema is None or epsilon is None or not site:
            raise InvalidParameterError("A round needs --schema, --epsilon and a --site for each of the sites.")
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
        draft = drafted(model, site, n_colluding=colluding, quorum=quorum, purpose=purpose, deadline=deadline)
    draft.save(output)
    _show(draft, output, as_json, quiet)


@federation_app.command()
def join(
    draft: Annotated[Path, typer.Argument(help="Draft, as it was invited to (.json).")],
    site: Annotated[str, typer.Option(help="Name of this site.")],
    key: Annotated[Path, typer.Option(help="File for the private keys, which must not leave this site.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Draft with the public keys of this site (.json).")],
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Make fresh keys for one round, and add the public ones to its draft."""
    from ..federation import Round, SiteKeys

    check_output(output, force, [key])
    invited = Round.load(draft)
    keys = SiteKeys.create(site, invited.terms)
    joined = keys.join(invited)
    keys.save(key)
    joined.save(output)
    note_console(quiet).print(
        f"Written to {output}: give it to whoever closes the round. The keys in {key} stay here; they are used once.",
        soft_wrap=True,
    )


@federation_app.command()
def close(
    drafts: Annotated[list[Path], typer.Argument(help="Drafts that sites have joined, copies of the same one.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Round to write (.json).")],
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Close a round with the sites that joined; its fingerprint binds all of it."""
    from ..federation import Round

    check_output(output, force, drafts)
    first, *others = map(Round.load, drafts)
    agreed = first.close(others)
    agreed.save(output)
    _show(agreed, output, as_json, quiet)


@federation_app.command()
def contribute(
    agreed: RoundFile,
    data: Data,
    key: Annotated[Path, typer.Option(help="File of the private keys that joined; it is used up.")],
    fingerprint: Annotated[
        str, typer.Option(help="Fingerprint of the round, as the other sites told it over another channel.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Contribution to write.")],
    ledger: Annotated[Path | None, typer.Option(help="Ledger of this site to record the spend in.")] = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    engine: Annotated[
        str | None, typer.Option(help="Engine to read and add up the files on.", autocompletion=engine_names)
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before spending.")] = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Add up the rows of this site, add its noise, mask and sign: one file, which tells nothing by itself."""
    from ..federation import Round, SiteKeys
    from ..federation import contribute as contributed
    from .charging import signals_of

    paths = expand(data)
    check_output(output, force, [*paths, agreed, key, *ledger_files(ledger)])
    joined = Round.load(agreed)
    if fingerprint.strip().lower() != joined.fingerprint:
        raise InvalidParameterError(
            "The round has another fingerprint than the other sites told; do not contribute before it is the same."
        )
    SiteKeys.load(key).check(joined)
    book = open_ledger(ledger)
    written = text_format(delimiter, decimal, encoding)
    table = open_declared(paths, {"schema": joined.terms.schema}, written, engine, quiet)
    note_console(quiet).print(f"About to spend: {in_words(joined.guarantee())}", soft_wrap=True)
    if book is not None:
        book.check(joined.guarantee())
        accounts = ledger_fields(book, joined.guarantee())
        note_console(quiet).print(
            f"Ledger {book.path}: after this {budget(accounts['spent_after'])} of {budget((book.epsilon, book.delta))}",
            soft_wrap=True,
        )
    if not yes and somebody_answers():
        ask()
    with signals_of(book) as signals:
        with one_bar(table.source, "drawing noise", quiet) as source:
            contributed(joined, key, source, output, ledger=book, overwrite=force)
        signals.written = output
    note_console(quiet).print(f"Written to {output}; the same file may be sent again.", soft_wrap=True)


@federation_app.command()
def combine(
    agreed: RoundFile,
    contributions: Annotated[list[Path], typer.Argument(help="Contribution files, one of every site.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Release file to write (.npz).")] = Path("release.npz"),
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Check the contributions of all sites and add them up: the release. It costs nothing."""
    from ..federation import Round
    from ..federation import combine as combined

    check_output(output, force, [agreed, *contributions])
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
        console = output_console()
        console.print(f"Guarantee: {release.guarantee}", soft_wrap=True)
        for assumption in release.guarantee.assumptions:
            console.print(f"Assumption: {assumption}", soft_wrap=True)
        console.print(f"Written to {output}; `eigenveil show {output}` shows it.", soft_wrap=True)


@federation_app.command()
def serve(
    agreed: RoundFile,
    folder: Annotated[Path, typer.Option(help="Folder for contributions and release; resumed if it is there.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Collect contributions over HTTP, and write the release when all are there. Put TLS in front of it."""
    from ..federation import Coordinator, Round

    coordinator = Coordinator(Round.load(agreed), folder)
    with coordinator.server(host, port) as server:
        address = f"http://{host}:{server.server_port}"
        with whole_file(coordinator.folder / "address.txt") as file:
            file.write(address.encode())
        note_console(quiet).print(f"Listening on {address}; the state is in {folder}.", soft_wrap=True)
        server.serve_forever()


@federation_app.command()
def send(
    contribution: Annotated[Path, typer.Argument(help="Contribution file.")],
    address: Annotated[str, typer.Argument(help="Address of the coordinator.")],
    quiet: Quiet = False,
) -> None:
    """Send a contribution to a coordinator; sent twice it counts once."""
    from ..federation import send as sent

    sent(contribution, address)
    note_console(quiet).print("The coordinator has it.")


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
    console = output_console()
    table = Grid(title="Round" if draft.closed else "Draft of a round", show_header=False)
    table.add_row("sites", ", ".join(draft.sites if draft.closed else draft.terms.invited))
    if draft.missing and draft.closed:
        table.add_row("left out", ", ".join(draft.missing))
    table.add_row("features", str(draft.terms.schema.n_features))
    table.add_row("mechanism", draft.terms.mechanism)
    table.add_row("guarantee", str(guarantee))
    for assumption in guarantee.assumptions:
        table.add_row("", assumption)
    console.print(table)
    if draft.closed:
        console.print(f"Fingerprint: {draft.fingerprint}", soft_wrap=True)
        console.print("Compare it over another channel before anybody contributes.")
