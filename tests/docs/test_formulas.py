"""Formulas of the docs are typeset, on the site and on GitHub: none is left raw, and Markdown eats no sign of any."""

import html
import re
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("latex2mathml", reason="needs the docs extra")
zensical_config = pytest.importorskip("zensical.config", reason="needs the docs extra")
markdown = pytest.importorskip("markdown")

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
# Signs that only a formula has: none stays in the text. Names and numbers (ε, n², 10⁻⁶) may.
FORMULA_SIGNS = "√∑∫‖ᵀ⪰⪯∝∈"


@pytest.fixture(scope="module")
def render():
    """Return what renders Markdown as the site does, by the extensions that zensical.toml names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        config = zensical_config.parse_config(str(ROOT / "zensical.toml"))
        # Those of Zensical itself make the API reference.
        names = [name for name in config["markdown_extensions"] if not name.startswith("zensical.")]
        assert "tools.mathml" in names
        made = markdown.Markdown(extensions=names, extension_configs=config["mdx_configs"])
        yield cache(lambda text: made.reset().convert(text))


def formulas(text: str) -> list[str]:
    """Return the formulas of a page as they are written."""
    found = re.findall(r"\$\$(.+?)\$\$|\$([^$\n]+)\$", _prose(text), flags=re.DOTALL)
    return [display or inline for display, inline in found]


def _prose(text: str) -> str:
    text = re.sub(r"^([ \t]*)(```|~~~).*?^\1\2[ \t]*$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "`", text).replace(r"\$", "")


def lone_dollars(text: str) -> list[str]:
    """Return the lines with a dollar sign that neither opens nor closes a formula, and has no backslash."""
    left = re.sub(r"\$\$[^$]+\$\$", "", _prose(text))
    return [line for line in left.splitlines() if line.count("$") % 2]


def shown(page: str) -> str:
    """Return the text of a rendered page that is neither code nor formula nor a link's address."""
    page = re.sub(r"<(code|pre|math|svg|style|script)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]*>", "", page))


def raw(page: str) -> list[str]:
    """Return what looks like a formula in the text of a rendered page: dollars, commands, indices, powers, signs."""
    text = shown(page)
    found = re.findall(r"\$[^\s$][^$\n]*\$|\\[a-zA-Z]+|(?<!\w)\w_[\w{(*]|\w\^|[)}‖][_^]", text)
    return found + re.findall(rf".{{0,12}}[{FORMULA_SIGNS}].{{0,12}}", text)


def eaten(page: str) -> list[str]:
    """Return emphasis in a rendered page that was meant as mathematics: it holds its signs, or stands inside a word."""
    signs = rf"[=≤≥<>·×^{FORMULA_SIGNS}₀-₉²³]|\b\w_"  # noqa: RUF001
    page = re.sub(r"<(code|pre|math)\b.*?</\1>", "code", page, flags=re.DOTALL)
    held = re.findall(r"<em>(.*?)</em>", page, flags=re.DOTALL)
    return [text for text in held if re.search(signs, html.unescape(re.sub("<[^>]*>", "", text)))] + re.findall(
        r"[\w‖)]<em>.*?</em>|<em>[^<]*</em>\w", page, flags=re.DOTALL
    )


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(DOCS)))
def test_a_page_shows_every_formula_and_eats_no_sign(path, render):
    text = path.read_text(encoding="utf-8")
    page = render(text)  # a formula that does not convert raises here
    assert lone_dollars(text) == []
    assert eaten(page) == []
    assert raw(page) == []
    assert page.count('<span class="formula">') == sum(1 for _ in re.finditer(r"\$\$[^$]+\$\$", _prose(text)))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(DOCS)))
def test_github_reads_the_formulas_too(path):
    """There a backslash before punctuation is taken away, and a vertical line ends the cell of a table."""
    found = formulas(path.read_text(encoding="utf-8"))
    assert [formula for formula in found if re.search(r"\\[^a-zA-Z]", formula) or "|" in formula] == []


def test_a_formula_is_mathml_with_every_sign(render):
    page = render(
        r"Let $\lVert a_i * b_i * c\rVert_* \le \sqrt{2}$ and *this* be." + "\n\n$$\n" + r"\frac{a_1}{b^*}" + "\n$$"
    )
    assert page.count("<math") == 2
    assert page.count("<mo>*</mo>") == 4
    assert page.count("<msqrt>") == page.count("<mfrac>") == page.count("<em>this</em>") == 1


# The controls: each of these is a mistake that the tests above must find.


@pytest.mark.parametrize("formula", [r"\unknown x", r"\frac{1}", "x_", "{a", "a_b_c", r"\lVert x"])
def test_a_formula_that_does_not_convert_ends_the_build(render, formula):
    with pytest.raises(ValueError, match=r"formula|convert|braces|command"):
        render(f"Here ${formula}$ stands.")


def test_an_unbalanced_dollar_is_found():
    assert lone_dollars("so $x$ and $y\n\nis `$HOME` at \\$5\n\n$$\nx\n$$\n") == ["so $x$ and $y"]


@pytest.mark.parametrize(
    "text", ["F(y*), y* = 2", "a*b*c", "‖D‖_* ≤ 2 and ‖D‖_* ≥ 1", "*x = 1*", "x_i*y_i* and z", "_ε ≤ 1_"]
)
def test_an_eaten_asterisk_is_found(render, text):
    assert eaten(render(text)) or raw(render(text))


@pytest.mark.parametrize("text", ["d^1.5 rows", "the column V_k", "$x $ and $y $", "a norm ‖x‖", "√n", r"\alpha"])
def test_a_formula_left_in_the_text_is_found(render, text):
    assert raw(render(text))


def test_code_is_no_formula(render):
    page = render("`V_k`, `d^2` and *no `a*b` formula*\n\n```\n$x_1$ a*b*c\n```\n")
    assert raw(page) == [] == eaten(page)
