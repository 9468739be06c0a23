"""`eigenveil start`: a guided first time, from a table to a release and its report.

It asks what a data-protection officer would ask, writes the answers down as a schema, and then runs the very commands
that it prints: what it does can be repeated without questions.
"""

import shlex
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import typer

from eigenveil.errors import EigenveilError, InvalidParameterError, integer_between, positive_number
from eigenveil.guarantee import Unit

from .common import REFUSED, Force, check_output, note_console, output_console
from .fitting import number_of_components
from .interview import (
    NoAnswer,
    ask,
    ask_delta,
    chosen_limit,
    chosen_target,
    columns_count_alike,
    odds_question,
    one_of_these,
    public_schema,
    weight_of_persons,
)
from .options import Decimal, Delimiter, Encoding
from .spending import somebody_answers
from .tables import text_format

_PURPOSES = ("components", "covariance", "prediction")


@dataclass
class Study:
    """What was answered, and the files of it."""

    table: Path
    schema: Any
    written: dict[str, Any] = field(default_factory=dict)
    purpose: str = "components"
    wanted: Any = None  # components or the column to predict
    standardize: bool = False  # whether columns count alike, for components
    weight: str | None = None  # what counts once, where persons are the unit
    epsilon: float = 1.0
    delta: float = 0.0
    n_rows: int | None = None
    limit: float | None = None  # of a new ledger

    @property
    def unit(self) -> Unit:
        """Whose data the promise is about."""
        return Unit.ROW if self.schema.person is None else Unit.PERSON

    def file(self, suffix: str) -> str:
        """Return a file beside the others of this study, in the folder where the command runs."""
        return f"{self.table.name.partition('.')[0] or 'table'}{suffix}"

    def commands(self, ledger: bool = True) -> list[list[str]]:
        """Return the commands that do all of it, as words."""
        name, *goal = {
            "components": ["pca", "-k", str(self.wanted).replace("_", "-")],
            "covariance": ["covariance"],
            "prediction": ["ridge", "--target", str(self.wanted)],
        }[self.purpose]
        fit = [name, str(self.table), *goal, *_options(self._budget()), "--schema", self.file(".yaml")]
        fit += ["--standardize"] if self.standardize else []
        fit += [] if self.weight is None else ["--weight", self.weight]
        fit += [
            *_options(self.written),
            *(["--ledger", self.file(".ledger")] if ledger else []),
            "--output",
            self.file(".npz"),
        ]
        book = [
            "ledger",
            "create",
            self.file(".ledger"),
            *_options(self._budget(self.limit or 0)),
            "--data-set",
            self.file(""),
            *(["--unit", self.unit.value] if self.schema.person is not None else []),
        ]
        return [*([book] if ledger and self.limit else []), fit, ["report", self.file(".npz")]]

    def _budget(self, limit: float | None = None) -> dict[str, str]:
        """Return epsilon and delta of one release, or of so many as a limit of epsilon has room for."""
        releases = 1 if limit is None else int(limit / self.epsilon + 1e-9)
        epsilon, delta = self.epsilon if limit is None else limit, releases * self.delta
        return {"epsilon": _digits(epsilon), **({"delta": _digits(delta)} if delta else {})}

    def estimator(self) -> Any:
        """Return the estimator that the commands use."""
        from eigenveil import PrivateCovariance, PrivatePCA, PrivateRidge

        kinds: dict[str, tuple[Any, dict[str, Any]]] = {
            "components": (PrivatePCA, {"n_components": self.wanted, "standardize": self.standardize}),
            "covariance": (PrivateCovariance, {}),
            "prediction": (PrivateRidge, {"target": self.wanted}),
        }
        kind, goal = kinds[self.purpose]
        weight = {} if self.weight is None else {"weight": self.weight}
        return kind(epsilon=self.epsilon, delta=self.delta, schema=self.schema, **goal, **weight)

    def python(self) -> str:
        """Return the same as a program."""
        goals = {"components": repr(self.wanted), "covariance": "", "prediction": f"target={self.wanted!r}"}
        name, goal = type(self.estimator()).__name__, goals[self.purpose]
        ledger, schema = repr(self.file(".ledger")), f"Schema.load({self.file('.yaml')!r})"
        lines = [f"from eigenveil import PrivacyLedger, {name}, Schema"]
        data = repr(str(self.table))
        options = [*([goal] if goal else []), *(f"{name}={value}" for name, value in self._budget().items())]
        options += ["standardize=True"] if self.standardize else []
        options += [] if self.weight is None else [f"weight={self.weight!r}"]
        if self.written:  # how a file of text is written is said where it is opened
            lines.append("from eigenveil.sources import open_table")
            given = ", ".join(f"{key}={value!r}" for key, value in self.written.items())
            data = f"open_table({data}, schema={schema}, {given})"
        else:
            options.append(f"schema={schema}")
        if self.limit:
            unit = "" if self.schema.person is None else f"unit={self.unit.value!r}, "
            limits = ", ".join(f"{name}={value}" for name, value in self._budget(self.limit).items())
            lines.append(f"PrivacyLedger.create({ledger}, {limits}, {unit}data_set={self.file('')!r})")
        lines += [
            f"model = {name}({', '.join([*options, f'ledger={ledger}'])})",
            f"model.fit({data})",
            f"model.release_.save({self.file('.npz')!r})",
        ]
        return "\n".join(lines)


def _options(given: dict[str, str]) -> list[str]:
    return [word for name, value in given.items() for word in (f"--{name}", value)]


def _digits(number: float) -> str:
    """Return a number as somebody would type it, with all of its digits."""
    return repr(number).removesuffix(".0")


def start(
    table: Annotated[Path, typer.Argument(help="A file of one table, such as CSV or Parquet.")],
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    force: Force = False,
) -> None:
    """Go through a first release step by step: what is public, what it is for, what it costs, and yes or no."""
    from eigenveil.sources import draft_schema

    console = note_console()
    written = text_format(delimiter, decimal, encoding)
    study = Study(table, draft_schema(str(table), **written), written)
    for suffix in (".yaml", ".npz", ".html"):
        check_output(Path(study.file(suffix)), force, [table], option="folder to work in")
    console.print(
        "Only the names and types of the columns have been read. Rows are read, and budget is spent, after your last "
        "yes; Ctrl-C leaves at any point.",
        soft_wrap=True,
    )
    before, spends = _entries(study), False
    try:
        _answered(study, force)
        spends = _agreed()
        if spends:
            _run(study, force)
    except (KeyboardInterrupt, typer.Abort, NoAnswer, EigenveilError):
        recorded = _entries(study) > before
        console.print("\nThe ledger has recorded a spend, which stays spent." if recorded else "\nNothing was spent.")
        raise
    _explain(study)
    if not spends:
        console.print("Nothing was spent.")
        raise typer.Exit(REFUSED)


def _answered(study: Study, force: bool) -> None:
    """Ask everything, write the schema, and show the plan with its forecast."""
    schema = public_schema(study.schema)
    schema.check_complete()
    study.schema = replace(schema, declared_on=date.today().isoformat() if schema.declared_by else None)
    study.purpose = ask(
        "What is it for? 1: principal components (Enter). 2: a covariance matrix that others may use. 3: the "
        "prediction of a column.",
        one_of_these(_PURPOSES, _PURPOSES[0]),
    )
    if study.purpose == "components":
        study.wanted = ask(
            "How many components? A number, a share of the variance such as 0.9, or Enter for those above the noise.",
            lambda text: _components(text or "above-noise", schema.n_features),
        )
        study.standardize = columns_count_alike()
    elif study.purpose == "prediction":
        numbers = [column.name for column in schema.used if column.features == (column.name,)]
        study.wanted = ask("Which column is to be predicted?", lambda text: chosen_target(text, numbers))
    study.weight, counted = weight_of_persons(schema), study.unit.counted
    study.n_rows = ask(
        f"About how many {counted} are there? It is for the forecast; Enter leaves it out.",
        lambda text: integer_between(f"The number of {counted}", int(text.replace(",", "")), 1) if text else None,
    )
    study.epsilon = ask(odds_question(study.unit), lambda text: positive_number("epsilon", float(text or 1)))
    study.delta = ask_delta(study.n_rows, study.unit)
    if not Path(study.file(".ledger")).exists():
        study.limit = ask(
            f"A ledger, {study.file('.ledger')}, will add up what is spent on this table. Which epsilon may all "
            f"releases have together? Enter for {study.epsilon:g}, which is this one alone.",
            lambda text: chosen_limit(float(text or study.epsilon), study.epsilon),
        )
    path = study.schema.save(study.file(".yaml"), overwrite=force)
    note_console().print(f"\nThe schema is written to {path}; it may be edited and used again.", soft_wrap=True)
    fit = study.commands(ledger=study.limit is None)[-2]
    _invoke([*fit, "--dry-run", "--force"])
    if study.limit is not None:
        note_console().print(f"{study.file('.ledger')} will be made, with this limit, and charged.", soft_wrap=True)
    if study.n_rows is not None:
        note_console().print(_forecast(study), soft_wrap=True)


def _components(text: str, n_features: int) -> int | float | str:
    wanted = number_of_components(text)
    if isinstance(wanted, int):
        return integer_between("The number of components", wanted, 1, n_features)
    if isinstance(wanted, float) and not 0 < wanted < 1:
        raise InvalidParameterError("A share of the variance lies between 0 and 1.")
    return wanted


def _forecast(study: Study) -> str:
    """Return what the release will be worth, from public numbers and an assumed spectrum."""
    from eigenveil.estimators.forecasting import forecast_of_fit

    d, n, counted = study.schema.n_features, study.n_rows, study.unit.counted
    assert n is not None
    try:
        plan = study.estimator().plan(d, n)
    except EigenveilError as error:  # the number may be a guess, and rows are asked for it again
        return f"Forecast: {n:,} {counted} would be refused. {error}"
    if study.purpose != "components":
        law, rule = plan.law(n), plan.preparation_for(d).bound.rule
        reach = rule.reach_squared / rule.norm**2  # what is hidden of one row, over what it can have in the matrix
        return (
            f"Forecast: with {n:,} {counted} the noise on an entry of the matrix has a standard deviation of about "
            f"{100 * reach * (law.noise_sd(n) or 0):.2g} % of the largest that it can be."
        )
    k = study.wanted if isinstance(study.wanted, int) else min(3, d)
    expected = forecast_of_fit(study.estimator().set_params(n_components=k), d, n)
    what = f"{k} components" if k > 1 else "1 component"
    told = (
        f"Forecast: with {n:,} {counted}, and variances that fall like 1, 1/2, 1/3, ..., {what} would miss about "
        f"{100 * expected.mean:.2g} % of what PCA without privacy captures"
    )
    if k < d and expected.mean > 0.8 * expected.random_loss:
        return (
            f"{told}, which is hardly better than directions at random: more {counted} or a larger epsilon are needed."
        )
    above = "" if expected.above_noise is None else f", and {expected.above_noise:.1f} components rise above the noise"
    return f"{told}{above}; `eigenveil plan` tells more."


def _agreed() -> bool:
    return ask("Spend it? [y/N]", lambda text: text.lower() in ("y", "yes"))


def _run(study: Study, force: bool) -> None:
    *before, page = study.commands()
    again = ["--force"] if force else []
    for words in before:
        _invoke([*words, *([] if words[0] == "ledger" else ["--yes", *again])])
    # A browser opens where somebody sits.
    _invoke([*page, *again, *(["--open"] if somebody_answers() else [])])


def _invoke(words: list[str]) -> None:
    from . import app

    typer.main.get_command(app).main(args=words, prog_name="eigenveil", standalone_mode=False)


def _explain(study: Study) -> None:
    console = output_console()
    console.print("\nThe same without questions:\n")
    for words in study.commands():
        console.print(f"  eigenveil {shlex.join(words)}", soft_wrap=True)
    console.print("\nand in Python:\n")
    for line in study.python().splitlines():
        console.print(f"  {line}", soft_wrap=True)


def _entries(study: Study) -> int:
    from eigenveil.accounting.ledger import PrivacyLedger

    path = Path(study.file(".ledger"))
    return len(PrivacyLedger(path).entries()) if path.exists() else 0
