"""Questions in the terminal, and the answers that make a schema. Everything asked for is public."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import typer

from eigenveil.errors import EigenveilError, InvalidParameterError, positive_number, probability_below_one
from eigenveil.guarantee import Guarantee, Unit
from eigenveil.odds import odds_factor
from eigenveil.schema import Column, Schema

from .common import REFUSED, note_console
from .tables import split_list

T = TypeVar("T")
_FAMILIAR = (0.1, 0.5, 1.0, 3.0)


class NoAnswer(typer.Exit):
    """Standard input ended before the questions did."""


def ask(question: str, parse: Callable[[str], T]) -> T:
    """Ask until an answer can be used; what is wrong with one is said in its sentence."""
    console = note_console()
    while True:
        console.print(f"\n{question}", soft_wrap=True)
        typer.echo("> ", err=True, nl=False)
        line = sys.stdin.readline()
        if not line:
            raise NoAnswer(REFUSED)
        try:
            return parse(line.strip())
        except (EigenveilError, ValueError) as error:
            told = str(error) if isinstance(error, EigenveilError) else "That is no number."
            console.print(told, soft_wrap=True)


def one_of_these(answers: Sequence[str], default: str) -> Callable[[str], str]:
    """Return a parser of one of the answers, by number or by word; a blank is the default."""

    def parse(text: str) -> str:
        if not text:
            return default
        if text.isdigit() and 1 <= int(text) <= len(answers):
            return answers[int(text) - 1]
        if text in answers:
            return text
        raise InvalidParameterError(f"Answer with a number from 1 to {len(answers)}.")

    return parse


def public_schema(draft: Schema) -> Schema:
    """Return the draft with what is publicly known: persons, columns, ranges, categories, missing values."""
    names = [column.name for column in draft.columns]
    person = ask(
        "What is a person here? Press Enter if every person has one row, else name the column that tells them apart.",
        lambda text: _column(text, names) if text else None,
    )
    others = [column for column in draft.columns if column.name != person]
    usual = [column.name for column in others if column.used]
    listed = "\n".join(f"  {column.name} ({column.kind})" for column in others)
    used = ask(
        f"Which columns are to be used?\n{listed}\nPress Enter for all that are not ignored, or list them as a,b,c.",
        lambda text: [_column(name, names) for name in split_list([text]) or usual],
    )
    ranged, unknown = _ranged(others, used)
    chosen = [_asked(column, unknown) if column.name in used else Column(column.name, "ignored") for column in ranged]
    schema = Schema((*([] if person is None else [Column(person, "person")]), *_with_missing(chosen)))
    who = ask("Who says so? A name or an office, which the schema and the release will hold; or Enter.", str)
    return replace(schema, declared_by=who or None)


def weight_of_persons(schema: Schema) -> str | None:
    """Return what counts once where persons are told apart: their averages, or all of their rows."""
    if schema.person is None:
        return None
    return ask(
        "What counts once? 1: every person's average (Enter). 2: every row, so that persons with many rows count more.",
        one_of_these(("persons", "rows"), "persons"),
    )


def odds_question(unit: Unit) -> str:
    """Return the question for epsilon, with what some answers mean."""
    says = "a person's row says" if unit is Unit.ROW else "all rows of a person say"
    lines = "\n".join(f"  epsilon {value:g}: at most {odds_factor(value)} to 1" for value in _FAMILIAR)
    return (
        f"Which epsilon? Let somebody hold odds of 1 to 1 on what {says}. After the release, whatever else they know, "
        f"these odds become\n{lines}\nEnter for 1."
    )


def _ranged(columns: Sequence[Column], used: Sequence[str]) -> tuple[list[Column], bool]:
    """Return the columns, with one range for all numbers where there is one, and whether no number has a range."""
    numbers = [column.name for column in columns if column.name in used and column.kind == "number"]
    if len(numbers) < 2:
        return list(columns), False
    shared, unknown = ask(
        f"Is one range LOW:HIGH known in public for all {len(numbers)} columns of numbers, from the questionnaire, the "
        "instrument or the law? It must not be read off the rows. Press Enter to go through them one by one, or "
        "answer none where no range is known.",
        lambda text: (None, True) if text.lower() == "none" else (_range(text), False),
    )
    return [replace(column, range=shared) if column.name in numbers else column for column in columns], unknown


def _asked(column: Column, unknown: bool) -> Column:
    """Return a column with what is known of it; a column of text of which nothing is known is ignored.

    `unknown` says that numbers have no ranges, so that nobody need be asked.
    """
    if column.kind == "ignored":  # as an identifier by its name, but somebody wants it
        column = Column(column.name)
    if column.kind == "number" and unknown:
        return column
    if column.range is None and column.kind in ("number", "date"):
        example = "LOW:HIGH" if column.kind == "number" else "2020-01-01:2024-12-31"
        return ask(
            f"{column.name}: which range is known in public, as {example}? Enter if none is.",
            lambda text: replace(column, range=_range(text) if column.kind == "number" else _dates(text)),
        )
    if column.kind == "category":
        return ask(
            f"{column.name}: which categories are known in public, as a,b,c? Enter leaves the column out.",
            lambda text: (
                replace(column, categories=split_list([text]) or ()) if text else Column(column.name, "ignored")
            ),
        )
    return column


def _with_missing(columns: Sequence[Column]) -> list[Column]:
    fillable = [column.name for column in columns if column.limits is not None]
    if not fillable:
        return list(columns)
    rule = ask(
        "What stands for a missing value? 1: nothing, rows with one are refused (Enter). 2: the middle of the range. "
        "3: the middle, and one more feature that tells that it was missing.",
        one_of_these(("nothing", "middle", "indicator"), "nothing"),
    )
    if rule == "nothing":
        return list(columns)
    return [replace(column, missing=rule) if column.name in fillable else column for column in columns]


def columns_count_alike() -> bool:
    """Return whether components are those of the correlation matrix."""
    answer = ask(
        "Shall all columns count alike, whatever their units? 1: yes, by their correlations (Enter). 2: no, in the "
        "units of the table, where large numbers count most.",
        one_of_these(("yes", "no"), "yes"),
    )
    return answer == "yes"


def chosen_target(text: str, names: Sequence[str]) -> str:
    """Return the column to predict, which is one of these."""
    if text not in names:
        raise InvalidParameterError(f"Name one of the columns of numbers that are used: {', '.join(names)}.")
    return text


def chosen_limit(limit: float, epsilon: float) -> float:
    """Return the limit of a ledger, which has room for a release of this epsilon."""
    if positive_number("The limit", limit) < epsilon:
        raise InvalidParameterError(f"The limit must be at least the epsilon of this release, {epsilon:g}.")
    return limit


def ask_delta(n: int | None, unit: Unit) -> float:
    """Ask for delta, far below one over the number of rows or persons where that was told."""
    return ask(
        "Which delta? With 0 (Enter) these odds hold always. With a small one, such as 1e-8, they may fail, with about "
        "that probability, and the noise is less where there are many columns. It must be far below one over the "
        f"number of {unit.counted}.",
        lambda text: _delta(float(text or 0), n or 0, unit),
    )


def _delta(delta: float, n: int, unit: Unit) -> float:
    from eigenveil.estimators.surroundings import delta_of_a_unit

    large = delta_of_a_unit(Guarantee(1.0, probability_below_one("delta", delta), unit=unit), n)
    if large is not None:
        raise InvalidParameterError(large)
    return delta


def _column(text: str, names: Sequence[str]) -> str:
    if text not in names:
        raise InvalidParameterError(f"There is no column {text!r}.")
    return text


def _range(text: str) -> Any:
    if not text:
        return None
    low, colon, high = text.partition(":")
    if not colon:
        raise InvalidParameterError("Give a range as LOW:HIGH.")
    return float(low), float(high)


def _dates(text: str) -> Any:
    low, colon, high = text.partition(":")
    if text and not colon:
        raise InvalidParameterError("Give a range as FIRST:LAST, with dates such as 2024-12-31.")
    return (low.strip(), high.strip()) if text else None
