"""A plan in words and tables."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..display import notebook_grid, notebook_table
from .forecast import Forecast

if TYPE_CHECKING:
    from rich.table import Table

    from .plan import Plan


# A component that is there in fewer of the fits is not shown.
_SELDOM = 0.05


def parts(plan: "Plan") -> Iterator[Any]:
    """Yield the question, the mechanisms beside each other, what will be reported, and what to do: texts and tables."""
    yield header(plan)
    yield mechanisms_table(plan)
    if plan.taken.components:
        yield (
            f"\nWhat a fit by {plan.taken.mechanism} will report, as shares of the variance of the rows as they are "
            "used:"
        )
        yield reported_table(plan)
        yield ""
    yield footer(plan)


def header(plan: "Plan") -> str:
    """Return the question in words."""
    scenario = plan.scenario
    energy = sum(scenario.spectrum)
    shares = ", ".join(f"{value / energy:.1%}" for value in scenario.spectrum[:4])
    target = "" if plan.target_loss is None else f", target loss {plan.target_loss:g}"
    k = "components above the noise" if scenario.n_components is None else f"{scenario.n_components} components"
    return (
        f"{plan.n_rows:,} rows of {scenario.n_features} features, {k}, "
        f"epsilon {plan.epsilon:g}, delta {scenario.delta:g}, {scenario.adjacency.value}{target}\n"
        f"Assumed: eigenvalues of {shares}{', ...' if scenario.n_features > 4 else ''} of the variance\n"
        f"Rows: {plan.taken.preparation}"
    )


def mechanisms_table(plan: "Plan") -> "Table":
    """Return the forecasts of all mechanisms as a table for rich."""
    needed = ("rows needed", "or epsilon") if plan.target_loss else ()
    table = _table(["", "mechanism"], ["loss", "9 in 10 fits", "captured", "above noise", *needed])
    for forecast in plan.forecasts:
        chosen = forecast.mechanism == plan.recommended
        error = "" if forecast.standard_error is None else f" ± {forecast.standard_error:.1g}"
        band = "" if forecast.low is None else f"{forecast.low:.2g} to {forecast.high:.2g}"
        cells = ["→" if chosen else "", forecast.mechanism, f"{forecast.mean:.3g}{error}", band, *_captured(forecast)]
        if plan.target_loss is not None:
            rows, epsilon = forecast.rows_needed, forecast.epsilon_needed
            missing = "out of reach" if forecast.as_asked else ""
            cells += [f"{rows:,}" if rows else missing, f"{epsilon:g}" if epsilon else missing]
        table.add_row(*cells, style="bold" if chosen else None)
    return table


def reported_table(plan: "Plan") -> "Table":
    """Return what will be reported of every component, and of all together."""
    forecast = plan.taken
    counted = plan.scenario.n_components is None
    table = _table(["component"], ["variance", "± of its interval", *(["in fits"] if counted else [])])
    for number, one in enumerate(forecast.components, 1):
        if one.there < _SELDOM:
            break
        there = [f"{one.there:.0%}"] if counted else []
        table.add_row(str(number), f"{one.share:.1%}", _width(one.half_width), *there)
    table.add_row(
        "together", f"{forecast.total or 0:.1%}", _width(forecast.total_half_width), *([""] if counted else [])
    )
    return table


def against_table(what: str, forecasts: Sequence[tuple[float, Forecast | str]]) -> "Table":
    """Return forecasts of one mechanism against epsilon or the number of rows."""
    table = _table([what], ["loss", "captured", "above noise", "reported together", "±"])
    for value, forecast in forecasts:
        number = f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
        if isinstance(forecast, str):
            table.add_row(number, "refused")
            continue
        together = "" if forecast.total is None else f"{forecast.total:.1%}"
        width = _width(forecast.total_half_width)
        table.add_row(number, f"{forecast.mean:.3g}", *_captured(forecast), together, width)
    return table


def footer(plan: "Plan") -> str:
    """Return what to do, and the limits of the answer, in words."""
    lines = ["Loss: 1 - qF(V)/qF(V_k), the share of what PCA without privacy captures that is missed."]
    if plan.hopeless:
        lines.append("No mechanism is clearly better than a random subspace: more rows or epsilon are needed.")
    lines.append(f"Recommended: {plan.recommended}. The fit takes {plan.auto}.")
    notes = _grouped({forecast.mechanism: forecast.note for forecast in plan.forecasts if forecast.note})
    lines += [f"{', '.join(names)}: {note}." for note, names in notes.items()]
    left_out = _grouped({name: reason.removeprefix(f"{name} ") for name, reason in plan.left_out.items()})
    lines += [f"Left out: {', '.join(names)}: {reason}" for reason, names in left_out.items()]
    return "\n".join(lines)


def _table(words: Sequence[str], numbers: Sequence[str]) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in words:
        table.add_column(column, no_wrap=True)
    for column in numbers:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _captured(forecast: Forecast) -> tuple[str, str]:
    captured = "" if forecast.captured is None else f"{forecast.captured:.1%}"
    return captured, "" if forecast.above_noise is None else f"{forecast.above_noise:.1f}"


def _width(half: float | None) -> str:
    return "" if half is None else f"{100 * half:.2g} %"


def _grouped(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the names that share a text, for every text."""
    names: dict[str, list[str]] = {}
    for name, text in texts.items():
        names.setdefault(text, []).append(name)
    return names


def face(plan: "Plan") -> str:
    """Return a plan as HTML for a notebook: the forecast of every mechanism, lowest loss first."""
    asked = {"rows": f"{plan.n_rows:,}", "epsilon": f"{plan.epsilon:g}", **plan.scenario.public()}
    facts = {name: value for name, value in asked.items() if isinstance(value, str | int | float)}
    rows = [
        [
            one.mechanism,
            f"{one.mean:.3g}",
            "yes" if one.as_asked else "no",
            "taken" if one.mechanism == plan.auto else "",
        ]
        for one in plan.forecasts
    ]
    grid = notebook_grid(["mechanism", "loss of variance", "keeps the promise asked for", "auto"], rows)
    return notebook_table("Forecast", facts, more=grid)
