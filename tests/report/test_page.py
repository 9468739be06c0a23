"""The report: it renders every kind of release, tells the truth in plain words, and holds no raw value."""

import base64
import hashlib
import math
import re
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pytest
import typer
from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from eigenveil import Adjacency, Guarantee, PrivacyLedger, PrivatePCA, Release, RowBound, score_map
from eigenveil.cli.show import report
from eigenveil.display import LEGEND
from eigenveil.errors import InvalidDataError, InvalidParameterError, ReleaseFileError
from eigenveil.guarantee import Numerics, chance, odds_factor
from eigenveil.moments.comparisons import NeighbourDifferences
from eigenveil.releases.origin import Collection, ComponentsRequest, RegressionRequest, Request, SparseRequest
from eigenveil.report import render_report, sections, write_report
from eigenveil.report.facts import read
from eigenveil.report.html import LEVELS, belief_range, element, guarantee_section, number
from helpers import database, refused
from made_releases import NAMES, by_hand, directions_by_hand, drawn, local_release, table, with_origin

HOSTILE = "<script>alert(1)</script>\"'&</title><img src=x onerror=alert(2)>\u202e{{7*7}}"
VOID = {"meta", "br"}


def swamped() -> Release:
    """Noise alone, made small: as it is drawn, it passes its own edge in one release of twenty."""
    release = drawn("laplace", epsilon=0.001, n_components=2)
    return Release({"matrix": release.integers["matrix"] // 10}, release.unit, release.guarantee, release.origin)


def local() -> Release:
    with pytest.MonkeyPatch.context() as patch:
        return local_release(patch)


def compares_neighbours(bound: RowBound, rows: np.ndarray) -> np.ndarray:
    differences_buffer = NeighbourDifferences(bound)
    return np.concatenate([*differences_buffer.push(rows), *differences_buffer.closing()])


CENTRED = RowBound(8.0, constant=8.0)
PAIRS = RowBound(1.0, statistic="spatial_sign", comparisons=8)
SIGNS = RowBound(6**0.5, statistic="kendall", comparisons=8)
KINDS = {
    "gaussian": lambda: drawn("gaussian", epsilon=2.0, n_components=3),
    "centred": lambda: drawn("matrix_laplace", bound=CENTRED, request=ComponentsRequest(2), estimator="PrivatePCA"),
    "chosen privately": lambda: drawn(
        "matrix_laplace",
        epsilon=3.2,
        guarantee=Guarantee(4.0, parts=(Guarantee(0.4), Guarantee(0.4), Guarantee(3.2))),
        chosen_privately=("bounds", "norm_bound"),
    ),
    "spatial_sign": lambda: drawn(
        "matrix_laplace", compares_neighbours(PAIRS, table()), bound=PAIRS, epsilon=8.0, n_components=2
    ),
    "kendall": lambda: drawn(
        "matrix_laplace", compares_neighbours(SIGNS, table()), bound=SIGNS, epsilon=8.0, n_components=6
    ),
    "add_or_remove_one": lambda: drawn("matrix_laplace", adjacency="add_or_remove_one", n_components=2),
    "swamped": lambda: swamped(),
    "subspace": lambda: drawn("ppca", n_components=2),
    "sampled": lambda: drawn("eigenvector_sampling", n_components=2),
    "sparse": lambda: drawn("matrix_laplace", request=SparseRequest(1), estimator="PrivateSparsePCA"),
    "covariance": lambda: drawn("gaussian", bound=CENTRED, request=Request(), estimator="PrivateCovariance"),
    "ridge": lambda: drawn("gaussian", bound=CENTRED, request=RegressionRequest(1), estimator="PrivateRidge"),
    "local": lambda: local(),
    "seeded": lambda: drawn("matrix_laplace", n_components=2, seed=0),
    "none": lambda: drawn("none", n_components=2),
    "random": lambda: drawn("random_projection", n_components=2),
    "wishart": lambda: drawn("wishart", calibration="paper", allow_unsound=True),
    "by hand": lambda: by_hand({"matrix": np.diag([20, 10, -1])}, unit=0.1),
    "one feature": lambda: directions_by_hand(np.eye(1), Guarantee(30.0)),
}


class Page(HTMLParser):
    """Reads a page strictly: every element closed in order, attributes and text collected."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.places: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], self.open

    def handle_starttag(self, tag, attrs):
        assert len({name for name, _ in attrs}) == len(attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        self.places.append(self.open[-1] if self.open else "")

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def under(self, tag: str) -> list[str]:
        return [text for text, place in zip(self.texts, self.places, strict=True) if place == tag]

    @property
    def text(self) -> str:
        return " ".join(self.texts).replace("\N{NO-BREAK SPACE}", " ")


@pytest.fixture(scope="module")
def releases() -> dict[str, Release]:
    return {name: make() for name, make in KINDS.items()}


@pytest.fixture(scope="module")
def pages(releases) -> dict[str, str]:
    return {name: render_report(release) for name, release in releases.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_release_becomes_an_accessible_page_that_loads_nothing(kind, pages):
    text = pages[kind]
    page = Page(text)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    for tag, attributes in page.elements:
        assert not {"style", "src", "srcset", "data", "action"} & set(attributes), tag
        assert not [name for name in attributes if name.startswith("on")]
        assert attributes.get("href", "#").startswith("#")
        for reference in (attributes.get("aria-labelledby") or "").split():
            assert reference in ids
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert page.all("html")[0]["lang"] == "en"
    drawn_beside_their_numbers = [chart for chart in page.all("svg") if chart.get("aria-hidden") == "true"]
    assert all(chart["class"] == "strip" for chart in drawn_beside_their_numbers)
    charts = [chart for chart in page.all("svg") if chart not in drawn_beside_their_numbers]
    assert charts
    assert all(chart["role"] == "img" and len(chart["aria-labelledby"].split()) == 2 for chart in charts)
    assert len(page.all("desc")) == len(charts)
    assert len(page.all("h1")) == 1
    assert "How to cite" in page.text
    assert "How to verify" in page.text


@pytest.mark.parametrize("kind", KINDS)
def test_figures_follow_what_was_released(kind, releases, pages):
    text = pages[kind]
    has_matrix = kind not in ("subspace", "random", "one feature")
    assert ('id="scree-title"' in text) == has_matrix
    assert ('id="spectrum"' in text) == has_matrix
    assert 'id="loadings"' in text
    plane = kind != "one feature" and not all(sections._undetermined(read(releases[kind])))
    assert ('id="biplot-title"' in text) == (plane and len(read(releases[kind]).components) > 1)
    assert ('id="means"' in text) == (kind in ("centred", "covariance", "ridge"))
    assert ('id="correlations-title"' in text) == (kind in ("covariance", "ridge", "by hand"))
    knows_noise = kind not in ("subspace", "random", "sampled", "none", "by hand", "one feature")
    assert ("noise level" in text) == knows_noise
    assert ('id="regression"' in text) == (kind == "ridge")
    has_intervals = (knows_noise and kind != "local") or kind == "sampled"
    assert ("±" in text) == (LEGEND in text.replace("\N{NO-BREAK SPACE}", " ")) == has_intervals


def test_the_file_alone_gives_the_same_report_and_its_checksum(tmp_path, releases, pages):
    path = releases["gaussian"].save(tmp_path / "a.npz")
    from_file = render_report(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert from_file.count(digest) == 2
    shortened = from_file.replace(f" SHA-256 {digest}.", "")
    in_memory = pages["gaussian"]
    assert shortened[: shortened.index("How to verify")] == in_memory[: in_memory.index("How to verify")]


# Only released values.


def formats(value: float) -> set[str]:
    """Every way to print a number that keeps at least four of its digits and its size."""
    texts = {repr(value), str(value)}
    for digits in range(4, 18):
        texts |= {f"{value:.{digits}g}", f"{value:.{digits - 1}e}", number(value, digits)}
    for places in range(7):
        texts |= {f"{value:.{places}f}", f"{value:,.{places}f}"}
    rounded = {f"{float(f'{value:.{digits}g}'):{style}}" for digits in range(4, 9) for style in (".0f", ",.0f")}
    return texts | rounded


RECOGNISABLE = np.round(np.random.default_rng(11).uniform(2e7, 9e7, size=(300, 5)), 2)
# Every entry has eight digits before the point, and so do the statistics; released variances are near 10^15.


@cache
def private_texts() -> frozenset[str]:
    """Entries of the data and statistics of its columns, in every format."""
    rows = RECOGNISABLE
    statistics = np.concatenate([rows.min(0), rows.max(0), rows.mean(0), rows.std(0), np.linalg.norm(rows, axis=1)])
    return frozenset().union(*(formats(float(value)) for value in (*rows.ravel(), *statistics)))


def raw_values_in(page: str) -> frozenset[str]:
    """Return what the page prints of the data."""
    found = re.findall(r"\d[\d.,]*\d(?:e[+-]\d+)?", page.replace("\N{MINUS SIGN}", "-"))
    return private_texts() & set(found)


@pytest.fixture(scope="module")
def recognisable_releases(tmp_path_factory) -> list[tuple[Release, PrivacyLedger | None]]:
    def release(mechanism: str, constant: float | None = None, **options) -> Release:
        bound = RowBound(3e8, constant=constant)
        return drawn(mechanism, RECOGNISABLE, bound=bound, names=NAMES[:5], seed=3, **options)

    found = [
        (release("matrix_laplace", epsilon=50.0, n_components=3), None),
        (release("matrix_laplace", 3e8, epsilon=50.0, request=ComponentsRequest(3)), None),
        (release("ppca", n_components=2), None),
        (release("eigenvector_sampling", n_components=2), None),
        (release("gaussian", epsilon=10.0, request=Request()), None),
        # Not centred: an intercept would have eight digits itself, and agree with one of 1,500 entries by chance.
        (release("gaussian", epsilon=10.0, request=RegressionRequest(4)), None),
        (release("gaussian", epsilon=10.0, request=SparseRequest(2)), None),
    ]
    ledger = PrivacyLedger.create(tmp_path_factory.mktemp("ledger") / "study.ledger", epsilon=100.0, data_set="study")
    ledger.spend(Guarantee(1.0), "PrivatePCA.fit")
    return [*found, (found[0][0], ledger)]


def test_no_raw_value_of_the_data_appears(recognisable_releases):
    for release, ledger in recognisable_releases:
        page = render_report(release, ledger=ledger)
        assert raw_values_in(page) == set()
        assert raw_values_in(release._repr_html_() + release.guarantee._repr_html_()) == set()


@pytest.mark.parametrize(
    "plant",
    [
        lambda x: f"{x!r}",
        lambda x: f"mean {x:,.0f}",
        lambda x: f"{x:.3e}",
        lambda x: f"({x:.5g})",
        lambda x: f"-{float(f'{x:.4g}'):,.0f}.",
        lambda x: number(x),
    ],
)
def test_control_a_planted_raw_value_is_found(plant, recognisable_releases):
    release, _ = recognisable_releases[2]
    assert raw_values_in(render_report(release, title=plant(float(RECOGNISABLE[17, 2]))))
    renamed = with_origin(release, feature_names=(plant(float(RECOGNISABLE[:, 1].mean())), *"abcd"))
    assert raw_values_in(render_report(renamed))


def test_control_a_report_on_the_rows_themselves_is_caught():
    leak = by_hand({"matrix": np.diag(np.rint(100 * RECOGNISABLE[0]))}, unit=0.01)
    assert raw_values_in(render_report(leak))


# Text from elsewhere is text.


def test_hostile_names_stay_text(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "l", epsilon=5.0, data_set="study")
    ledger.spend(Guarantee(1.0), HOSTILE)
    release = by_hand(
        {"matrix": np.eye(3)},
        Guarantee(1.0, assumptions=(HOSTILE,), parts=(Guarantee(0.5), Guarantee(0.5))),
        mechanism=HOSTILE,
        feature_names=(HOSTILE, "b", "c"),
        estimator=HOSTILE,
        created=HOSTILE,
        package_version=HOSTILE,
        chosen_privately=(HOSTILE,),
        collection=Collection("f", {HOSTILE: 3}),
        ledger_entry=HOSTILE,
    )
    for text in (render_report(release, ledger=ledger, title=HOSTILE), release._repr_html_()):
        page = Page(text)
        assert len(page.all("script")) == text.count("<script>") <= 1
        assert not page.all("img")
        assert "<script>alert(1)</script>" in page.text
    assert "\u202e" not in "".join(read(release).names)


def test_the_policy_allows_exactly_the_style_and_the_script_of_the_page(pages):
    text = pages["gaussian"]
    policy = next(m["content"] for m in Page(text).all("meta") if m.get("http-equiv"))
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        content = re.search(f"<{tag}>(.*)</{tag}>", text, re.DOTALL).group(1)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


# Plain words.


def test_the_guarantee_is_told_in_odds(pages):
    page = Page(pages["gaussian"]).text
    assert "changes the odds by at most a factor of e^2 = 7.39" in page
    assert "a chance of 1 in 1,000,000 (delta = 1e-06)" in page
    assert "the number of rows is public" in page
    assert "Exact sampling" in page


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_names_the_mechanism_and_the_unit_of_privacy(kind, releases, pages):
    page = Page(pages[kind])
    facts = Page(re.search('<dl class="facts">.*?</dl>', pages[kind], re.DOTALL).group())
    told = dict(zip(facts.under("dt"), facts.under("dd"), strict=True))
    assert told["Mechanism"] == releases[kind].origin.mechanism
    local = releases[kind].origin.model == "local"
    assert told["Privacy unit"] == ("one report" if local else "one row")
    assert "Weights" not in told
    assert f"Formal guarantee: {releases[kind].guarantee}." in page.text


def test_what_weakens_the_guarantee_is_said(pages):
    def words(kind: str) -> str:
        return Page(pages[kind]).text

    assert "Not private: seeded" in words("seeded")
    assert "no limit to what can be learned" in words("seeded")
    assert "released without any protection" in words("none")
    assert "Not private" not in words("gaussian")
    wishart = words("wishart")
    assert "The paper behind this mechanism states epsilon = 1. The noise gives epsilon = 0.3333" in wishart
    assert "The published Wishart mechanism is not pure" in wishart
    assert "convergence is tested but not proved" in words("subspace")
    assert "whether the data of one person are included" in words("add_or_remove_one")
    assert "(noisy)" in words("add_or_remove_one")
    assert "The components below may be noise." in words("swamped")
    assert "holds against the server too" in words("local")
    assert "hardly any protection" in words("one feature")
    assert "weak guarantee" not in words("one feature")
    assert "weak guarantee" in Page(str(element("div", guarantee_section(Guarantee(6.0))))).text
    assert "no order of importance" in words("subspace")
    assert "bounds, norm bound" in words("chosen privately")


def test_many_features_are_cut_and_it_is_said():
    generator = np.random.default_rng(0)
    release = directions_by_hand(np.linalg.qr(generator.normal(size=(500, 10)))[0].T)
    page = Page(render_report(release)).text
    assert "Loadings of 100 of 500 features" in page
    assert "8 of 500 loadings shown, the largest." in page
    assert "10 of 500 features are named" in page
    assert "6 of 10 components shown" in page


def test_the_ledger_marks_this_release_and_misses_a_foreign_one(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "study.ledger", epsilon=3.0, data_set="study")
    ledger.spend(Guarantee(0.5), "an earlier release")
    release = drawn("matrix_laplace", ledger=ledger)
    page = Page(render_report(release, ledger=ledger)).text
    assert "matrix_laplace release (this release)" in page
    assert "an earlier release" in page
    assert (
        "Total known spend: epsilon = 1.5 in the ledger. The ledger of the data set study allows epsilon = 3 in total"
        in re.sub(r"\s+", " ", page)
    )
    assert "One more release may spend epsilon = 1.5." in page
    other = PrivacyLedger.create(tmp_path / "other.ledger", epsilon=3.0, data_set="study")
    other.spend(Guarantee(0.1), "first")
    other.spend(Guarantee(0.1), "second")
    assert "This release: not in the ledger." in Page(render_report(release, ledger=other)).text
    assert "entry 2 of a ledger that is not part of this report" in Page(render_report(release)).text


def test_what_is_shown_without_an_entry_is_added_and_marked(tmp_path):
    rows = np.random.default_rng(0).normal(size=(2000, 3)) * [3, 2, 1]
    ledger = PrivacyLedger.create(tmp_path / "study.ledger", epsilon=3.0, data_set="study")
    release = PrivatePCA(2, epsilon=3.0, norm_bound=12.0, ledger=ledger).fit(rows).release_
    cloud = score_map(rows, release, epsilon=1.0)
    page = Page(render_report(release, ledger=ledger, scores=cloud)).text
    assert (
        "Total known spend: epsilon = 4: epsilon = 3 in the ledger, the rest not in the ledger. This exceeds the limit "
        "of epsilon = 3." in page
    )
    assert "Its score map: not in the ledger." in page
    assert "PrivatePCA.fit (this release)" in page
    alone = Page(render_report(release, scores=cloud)).text
    assert "Total known spend: epsilon = 4, by this release and its score map." in alone
    # What does not add up is not added.
    other = score_map(rows, release, epsilon=1.0, adjacency="add_or_remove_one")
    page = Page(render_report(release, ledger=ledger, scores=other)).text
    assert "and a spend that is not in the ledger and cannot be added to it" in page
    assert "exceeds the limit" not in page


def test_a_concentrated_ledger_tells_what_is_left_in_rho(tmp_path):
    ledger = PrivacyLedger.create(
        tmp_path / "study.ledger", epsilon=9.0, delta=1e-6, composition="zcdp", data_set="study"
    )
    release = drawn("matrix_laplace", ledger=ledger)
    page = Page(render_report(release, ledger=ledger)).text
    rho, (epsilon, _) = ledger.remaining_rho, ledger.remaining
    assert f"Remaining: rho = {rho:.6g}, that is epsilon = {epsilon:.6g} and delta = 1e-06." in page


@given(st.floats(0.0, 26.0))
@example(5e-324)
@example(5.5e-27)
def test_the_factor_is_rounded_up_and_little(epsilon):
    stated, true = float(odds_factor(epsilon).replace(",", "")), math.exp(epsilon)
    assert stated >= true * (1 - 1e-15)
    assert stated - 1 <= 1.11 * (true - 1) + 1e-12 or stated <= true + 0.01


@given(st.floats(1e-15, 0.999))
def test_a_chance_is_rounded_up(delta):
    text = chance(delta)
    if "1 in" in text:
        assert int(text.split(" in ")[1].replace(",", "")) <= 1 / delta * (1 + 1e-12)
    else:
        assert float(text.split()[3]) / 100 >= delta * (1 - 1e-9)


@given(st.floats(0.001, 0.999), st.floats(0.0, 50.0))
def test_beliefs_move_by_the_factor_of_their_odds(prior, epsilon):
    low, high = belief_range(prior, epsilon)
    odds = prior / (1 - prior)
    assert low == pytest.approx(odds / (odds + math.exp(epsilon)), rel=1e-6, abs=1e-15)
    assert high == pytest.approx(odds / (odds + math.exp(-epsilon)), rel=1e-9)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("numerics", Numerics)
def test_notebooks_show_the_guarantee_in_words(adjacency, numerics):
    guarantee = Guarantee(1.0, 1e-6, adjacency, numerics, assumptions=("a < b",))
    shown = Page(guarantee._repr_html_()).text
    assert str(guarantee) in shown
    assert "2.72" in shown
    assert "a < b" in shown
    assert all(sentence in shown for sentence in guarantee.in_words())
    assert "NOT PRIVATE" in guarantee.marked_reproducible()._repr_html_()


def test_notebooks_show_what_was_released(releases):
    shown = Page(releases["gaussian"]._repr_html_()).text
    for text in ("matrix", "6 x 6", "gaussian", "3000", "7.39"):
        assert text in shown


# Readable in both themes.


def colours() -> dict[str, tuple[str, str]]:
    style = re.search("<style>(.*)</style>", render_report(KINDS["by hand"]()), re.DOTALL).group(1)
    return {name: (a, b) for name, a, b in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", style)}


def contrast(first: str, second: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_contrast(theme):
    palette = {name: pair[theme] for name, pair in colours().items()}
    texts = [(ink, ground) for ink in ("ink", "soft", "accent") for ground in ("paper", "card")]
    texts += [("warn", "warn-wash"), ("ink", "accent-wash")]
    levels = ["zero", *(f"{side}{level}" for side in "pn" for level in range(1, LEVELS + 1))]
    texts += [(f"{level}-text", level) for level in levels]
    for ink, ground in texts:
        assert contrast(palette[ink], palette[ground]) >= 4.5, (ink, ground)
    for mark in ("accent", "edge", "hatch", "p4", "n4"):
        assert contrast(palette[mark], palette["card"]) >= 3, mark
    assert contrast("#777777", "#888888") < 1.5  # the control


# Files and errors.


def test_write_report_writes_one_file(tmp_path, releases):
    target = write_report(releases["subspace"], tmp_path / "r.html", title="Züge & Wege")
    assert target == tmp_path / "r.html"
    assert '<p class="eyebrow">Züge &amp; Wege</p>' in target.read_text(encoding="utf-8")
    with refused(ReleaseFileError):
        write_report(releases["subspace"], tmp_path / "missing" / "r.html")


def test_what_cannot_be_shown_is_refused(tmp_path):
    for integers in ({}, {"matrix": np.ones((2, 3))}):
        with refused(InvalidDataError):
            render_report(by_hand(integers))
    path = directions_by_hand(np.eye(2)).save(tmp_path / "a.npz")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with refused(ReleaseFileError):
        render_report(path)


@pytest.mark.parametrize("change", [{"epsilon": -1}, {"unknown": 1}, {"calibration": "of tomorrow"}])
def test_parameters_that_this_version_does_not_know_leave_the_noise_unknown(change, releases):
    release = releases["gaussian"]
    altered = with_origin(release, parameters={**release.origin.parameters, **change})
    shown = read(altered)
    assert shown.edges is None
    assert "not known" in shown.notes[0]


def run_command(*arguments: str):
    app = typer.Typer()
    app.command()(report)
    return CliRunner().invoke(app, list(arguments))


def test_the_command_writes_beside_the_release(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "study.ledger", epsilon=3.0, data_set="study")
    drawn("matrix_laplace", ledger=ledger).save(tmp_path / "a.npz")
    done = run_command(str(tmp_path / "a.npz"), "--ledger", str(tmp_path / "study.ledger"), "--title", "A study")
    assert done.exit_code == 0, done.output
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert '<p class="eyebrow">A study</p>' in page
    assert "(this release)" in page
    missing = run_command(str(tmp_path / "a.npz"), "--ledger", str(tmp_path / "nowhere"))
    assert isinstance(missing.exception, InvalidParameterError)
    assert not (tmp_path / "nowhere").exists()


def test_a_report_needs_no_plotting_package(tmp_path, releases):
    path = releases["gaussian"].save(tmp_path / "a.npz")
    code = f"import sys; from eigenveil.report import render_report; render_report({str(path)!r})"
    code += "; print('matplotlib' in sys.modules, 'jinja2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_a_report_never_replaces_what_it_is_made_from(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "ledger", epsilon=1.0, data_set="study")
    file = directions_by_hand(np.eye(1, 3)).save(tmp_path / "release.npz")
    for target in (file, tmp_path / "." / "release.npz", database(ledger.path)):
        before = target.read_bytes()
        with pytest.raises(InvalidParameterError):
            write_report(file, target, ledger=ledger)
        assert target.read_bytes() == before


def test_an_interrupted_report_leaves_the_old_one_and_nothing_else(tmp_path, monkeypatch):
    release = directions_by_hand(np.eye(1, 3))
    target = write_report(release, tmp_path / "report.html")
    old = target.read_bytes()

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_report(release, target, title="another")
    assert target.read_bytes() == old
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
