"""The guarantee card of a report: the promise in plain words, its exceptions and its limits."""

from ..guarantee import Guarantee, Relation, chance, odds_factor
from . import charts
from .blocks import budget, figure
from .markup import Html, element

# Beyond this e^epsilon is above 100, and a promise in odds alone rules out little.
WEAK_EPSILON = 5.0


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


def promise(guarantee: Guarantee) -> Html:
    """Return the guarantee card: the promise in plain words, its exceptions and its limits."""
    words = [element("p", sentence) for sentence in guarantee.in_words()]
    extra = []
    if guarantee.claimed is not None:
        extra.append(
            f"The paper behind this mechanism states {budget(*guarantee.claimed)}; what its noise truly gives is "
            f"{budget(guarantee.epsilon, guarantee.delta)}, and that is what counts here."
        )
    if guarantee.is_private and guarantee.epsilon > WEAK_EPSILON:
        extra.append("A factor this large is a weak promise: by itself it rules out little.")
    caveats = [*extra, *guarantee.caveats]
    limits = (
        "It does not hide what is true of people in general and would show without this person. It does not cover "
        "other releases from the same data, whose factors multiply, nor a person with several rows, for whom the "
        "factor counts once a row."
    )
    text = element(
        "div",
        words,
        [element("h3", "Caveats"), element("ul", [element("li", line) for line in caveats])] if caveats else None,
        element("p", f"In formal terms: {guarantee}.", class_="soft"),
    )
    heading = element("h2", "The guarantee", id="guarantee")
    if not guarantee.is_private:
        line = element("p", "There is no limit to what can be learned about one person.", class_="headline")
        return element("section", heading, line, text, class_="card promise broken", aria_labelledby="guarantee")
    factor = element("span", odds_factor(guarantee.epsilon), class_="factor")
    exception = f", but for {chance(guarantee.delta)}" if guarantee.delta > 0 else ""
    line = element(
        "p",
        "What anyone can learn about one person from that person's row changes the odds by a factor of at most ",
        factor,
        f"{exception}.",
        class_="headline",
    )
    rows = [
        (f"{100 * prior:.0f} %", *(f"{100 * end:.4g} %" for end in charts.belief_range(prior, guarantee.epsilon)))
        for prior in (0.01, 0.1, 0.5, 0.9)
    ]
    if guarantee.relation is Relation.REPLACE:
        question = "that one person's data say A and not B, held by someone who knows all other rows"
    else:
        question = "that one person took part, held by someone who knows all other rows"
    caption = f"Dot: a belief {question}. Band: where this release can move it."
    if guarantee.delta > 0:
        caption += " The chance delta comes on top."
    picture = figure(charts.beliefs(guarantee.epsilon), caption, ("before", "least after", "most after"), rows)
    return element(
        "section",
        heading,
        line,
        element(
            "div",
            text,
            element("div", picture, element("h3", "What it does not promise"), element("p", limits)),
            class_="pair",
        ),
        class_="card promise",
        aria_labelledby="guarantee",
    )
