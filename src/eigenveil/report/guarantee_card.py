"""The promise of a release in plain words, its exceptions and its limits."""

import math

from ..guarantee import Guarantee, Relation, Unit
from ..odds import chance, odds_factor
from .cards import budget, figure, folded, table
from .drawing import WIDTH, label, svg
from .markup import Html, element

# Beyond this e^epsilon is above 100, and a promise in odds alone rules out little.
WEAK_EPSILON = 5.0
PRIORS = (0.01, 0.1, 0.5, 0.9)


def banner(guarantee: Guarantee) -> Html | None:
    """Return the warning over a release that is not private."""
    if guarantee.is_private:
        return None
    if guarantee.reproducible:
        head, text = "Not private: seeded", "The noise of this release was drawn from a seed, for tests or papers. "
        text += "Whoever knows or guesses the seed can remove the noise. Do not publish it about real people."
    else:
        head, text = "Not private", "These values were released without any protection. Use them with public data only."
    return element("div", element("strong", head), element("p", text), class_="banner", role="alert")


def promise(guarantee: Guarantee) -> list[Html]:
    """Return the promise in plain words and as beliefs, with its exceptions."""
    words = [element("p", sentence) for sentence in guarantee.in_words()]
    extra = []
    if guarantee.claimed is not None:
        extra.append(
            f"The paper behind this law states {budget(*guarantee.claimed)}; what its noise truly gives is "
            f"{budget(guarantee.epsilon, guarantee.delta)}, and that is what counts here."
        )
    if guarantee.is_private and guarantee.epsilon > WEAK_EPSILON:
        extra.append("A factor this large is a weak promise: by itself it rules out little.")
    caveats = [*extra, *guarantee.caveats]
    text = element(
        "div",
        words,
        [element("h4", "Caveats"), element("ul", [element("li", line) for line in caveats])] if caveats else None,
        element("p", f"In formal terms: {guarantee}. Unit of privacy: {guarantee.unit.in_words}.", class_="soft"),
    )
    if not guarantee.is_private:
        return [element("p", "There is no limit to what can be learned about one person.", class_="lead broken"), text]
    factor = element("span", odds_factor(guarantee.epsilon), class_="factor")
    exception = f", but for {chance(guarantee.delta)}" if guarantee.delta > 0 else ""
    line = element(
        "p",
        f"What anyone can learn about one person from {_own(guarantee)} changes the odds by a factor of at most ",
        factor,
        f"{exception}.",
        class_="lead",
    )
    rows = [
        (f"{100 * prior:.0f} %", *(f"{100 * end:.4g} %" for end in belief_range(prior, guarantee.epsilon)))
        for prior in PRIORS
    ]
    if guarantee.relation is Relation.REPLACE:
        about = f"that one person's data say A and not B, held by someone who knows {guarantee.known_others}"
    else:
        about = f"that one person took part, held by someone who knows {guarantee.known_others}"
    caption = f"Dot: a belief {about}. Band: where this release can move it."
    if guarantee.delta > 0:
        caption += " The chance delta comes on top."
    numbers = table("How far a belief can move", ("before", "least after", "most after"), rows)
    picture = figure(_beliefs(guarantee.epsilon), caption, folded("The numbers as a table", numbers))
    return [line, element("div", text, picture, class_="pair")]


def _own(guarantee: Guarantee) -> str:
    return "that person's row" if guarantee.unit is Unit.ROW else "all rows of that person"


def limits(guarantee: Guarantee) -> str:
    """Return what is not promised, in words."""
    text = (
        "It does not hide what is true of people in general and would show without this person. It does not cover "
        "other releases from the same data, whose factors multiply"
    )
    if guarantee.unit is Unit.ROW:
        text += ", nor a person with several rows, for whom the factor counts once a row"
    return text + "."


def _beliefs(epsilon: float) -> Html:
    """Draw how far a belief can move under a factor of e^epsilon on its odds."""
    left, right, row, upper = 110, WIDTH - 22, 28, 24

    def x(belief: float) -> float:
        return left + (right - left) * belief

    shapes = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        shapes.append(element("line", x1=x(tick), x2=x(tick), y1=upper, y2=upper + row * len(PRIORS), class_="grid"))
        shapes.append(label(x(tick), 14, f"{100 * tick:.0f} %", "middle", "soft"))
    for line, prior in enumerate(PRIORS):
        low, high = belief_range(prior, epsilon)
        y = upper + row * line + row / 2
        shapes.append(label(left - 12, y + 4, f"before: {100 * prior:.0f} %", "end"))
        shapes.append(
            element("rect", x=x(low), y=y - 7, width=max(x(high) - x(low), 1.0), height=14, rx=7, class_="range")
        )
        shapes.append(element("circle", cx=x(prior), cy=y, r=4.5, class_="point"))
    described = "; ".join(
        f"a belief of {100 * prior:.0f} % stays between {100 * low:.2g} and {100 * high:.3g} %"
        for prior in PRIORS
        for low, high in [belief_range(prior, epsilon)]
    )
    return svg("beliefs", upper + row * len(PRIORS) + 4, "How far a belief can move", described + ".", shapes)


def belief_range(prior: float, epsilon: float) -> tuple[float, float]:
    """Return the least and the largest belief after a change of the odds by at most e^epsilon.

    Examples
    --------
    >>> [round(end, 3) for end in belief_range(0.5, 1.0)]
    [0.269, 0.731]
    """
    odds = math.log(prior / (1 - prior))
    low, high = (0.5 * (1 + math.tanh((odds + shift) / 2)) for shift in (-epsilon, epsilon))
    return low, high
