"""What a data-protection officer signs: every fact on the page and in the JSON, each with its source."""

import json
import re
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
import yaml

from eigenveil import Guarantee, PrivacyLedger, PrivateCovariance, PrivatePCA, Schema, load_release
from eigenveil.errors import InvalidParameterError
from eigenveil.guarantee import odds_factor
from eigenveil.report import Statement, render_report, report_record
from eigenveil.report.record import belief_range, read_record
from eigenveil.tables.schema import Column
from helpers import invoked, refused
from made_releases import NAMES, drawn, table, with_origin
from report.test_page import HOSTILE, Page

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
FIELDS = ("purpose", "recipients", "responsible", "approval", "other_releases")
FRAME = pd.DataFrame(table(), columns=NAMES)
BLANK = "to be filled in"
GIVEN = "The ranges and bounds that were given were chosen without looking at the rows."


def words(page: str) -> str:
    return re.sub(r"\s+", " ", Page(page).text)


def answer(page: str, title: str) -> str:
    """Return the words of one section of the officer's half."""
    start = page.index(f"{title}</h3>")
    return words("<div>" + page[start + len(title) + 5 : page.index("</section>", start)] + "</div>")


# Purpose, recipients, responsible person, approval.


def test_fields_that_are_not_given_are_blank_lines():
    page = render_report(drawn())
    assert words(page).count(BLANK) == len(FIELDS) + 3  # and place, date and two signatures
    for label in ("Purpose", "Recipients", "Responsible person", "Approval", "Signature of the responsible person"):
        assert f'<dt>{label}</dt><dd class="blank">' in page
    assert report_record(drawn())["statement"] == dict.fromkeys(FIELDS)


def test_given_fields_are_printed(tmp_path):
    release = drawn()
    statement = Statement("Annual report", "Public\nand the press", "Dr. A", "ticket 7", "one table in 2020")
    page = render_report(release, statement=statement)
    assert words(page).count(BLANK) == 3
    for text in ("Annual report", "Public<br>and the press", "Dr. A", "ticket 7", "one table in 2020"):
        assert f"<dd>{text}</dd>" in page
    file = tmp_path / "statement.yaml"
    file.write_text(yaml.safe_dump(asdict(statement)), encoding="utf-8")
    assert render_report(release, statement=file) == page
    assert render_report(release, statement=asdict(statement)) == page


def test_hostile_fields_stay_text():
    page = render_report(drawn(), statement=Statement(*(f"{HOSTILE} {name}" for name in FIELDS)))
    read = Page(page)
    assert len(read.all("script")) == page.count("<script>") == 1
    assert not read.all("img")
    assert "\u202e" not in page
    assert read.text.count("<script>alert(1)</script>") == len(FIELDS)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("porpose: x", "did you mean purpose"),
        ("- a\n- b", "must be a mapping"),
        ("purpose: {a: 1}", "purpose must be a text"),
        ("purpose: [1", "not valid YAML"),
        ("purpose: " + "x" * 10_001, "purpose must be a text"),
    ],
)
def test_a_statement_that_is_wrong_is_refused_with_what_to_do(content, said, tmp_path):
    file = tmp_path / "statement.yaml"
    file.write_text(content, encoding="utf-8")
    with refused(InvalidParameterError) as caught:
        render_report(drawn(), statement=file)
    assert said in str(caught.value)
    with refused(InvalidParameterError):
        render_report(drawn(), statement=tmp_path / "nowhere.yaml")


def test_an_empty_file_lists_and_dates_are_read(tmp_path):
    file = tmp_path / "statement.yaml"
    file.write_text("", encoding="utf-8")
    assert Statement.of(file) == Statement()
    file.write_text("recipients: [a, b]\napproval: 2026-01-31\npurpose: ''\n", encoding="utf-8")
    assert Statement.of(file) == Statement(recipients="a\nb", approval="2026-01-31")


# The command.


def test_json_carries_every_fact(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "study.ledger", epsilon=5.0, data_set="study")
    path = drawn("matrix_laplace", ledger=ledger).save(tmp_path / "a.npz")
    file = tmp_path / "statement.yaml"
    file.write_text("purpose: teaching\nrecipients: the press\napproval: ticket 7\n", encoding="utf-8")
    found = json.loads(invoked("report", path, "--statement", file, "--ledger", ledger.path, "--json").stdout)
    assert found["command"] == "report"
    assert found["statement"] == {
        "purpose": "teaching",
        "recipients": "the press",
        "responsible": None,
        "approval": "ticket 7",
        "other_releases": None,
    }
    record = report_record(load_release(path), ledger=ledger, statement=Statement(**found["statement"]))
    assert {name: found[name] for name in record} == json.loads(json.dumps(record))
    assert found["report"] == str(tmp_path / "a.html")
    page = words((tmp_path / "a.html").read_text(encoding="utf-8"))
    for text in ("teaching", "the press", *found["assumptions"], *found["not_protected"]):
        assert text in page
    assert found["privacy_unit"]["answer"] in page
    assert found["spending"]["text"] in page


def test_the_command_says_where_the_report_is(tmp_path):
    path = drawn().save(tmp_path / "a.npz")
    assert invoked("report", path).stdout == f"Report written to {tmp_path / 'a.html'}.\n"
    assert invoked("report", path, "--force", "--quiet").stdout == ""


# Ranges and clipping bounds, and where they come from.


def ranges_of(release):
    return [(one["low"], one["high"]) for one in report_record(release)["bounds"]["ranges"]]


@pytest.mark.parametrize("options", [{}, {"center": False, "delta": 1e-6}])
def test_ranges_of_the_caller_are_those_that_were_given(options, tmp_path):
    bounds = {name: (-15.0 - j, 20.0 + j / 8) for j, name in enumerate(NAMES)}
    release = PrivatePCA(2, epsilon=2.0, bounds=bounds, **options).fit(FRAME).release_
    release = load_release(release.save(tmp_path / "a.npz"))
    assert ranges_of(release) == list(bounds.values())
    assert read_record(release).bounds.ranges_source == "caller"
    text = answer(render_report(release), "6. Which ranges and clipping bounds were used?")
    assert "The ranges of the features were given by the caller." in text
    assert "\N{MINUS SIGN}17 to 20.25" in text
    assert GIVEN in words(render_report(release))


def test_a_norm_bound_of_the_caller():
    release = PrivatePCA(2, epsilon=2.0, norm_bound=30.0, center=False).fit(FRAME).release_
    bounds = read_record(release).bounds
    assert (bounds.ranges, bounds.ranges_source) == ([], None)
    assert [(one.value, one.source) for one in bounds.clipping] == [(30.0, "caller")]
    assert GIVEN in report_record(release)["assumptions"]
    measured = PrivatePCA(2, epsilon=4.0, delta=1e-6, norm_bound=30.0).fit(FRAME).release_
    assert "mean" in measured.integers
    first, second, *_ = read_record(measured).bounds.clipping  # and one of preconditioned rows
    assert (first.value, first.source) == (30.0, "caller")
    assert (second.value, second.source) == (measured.origin.row_rule.row_norm, "private")
    spent = 1 - measured.origin.parameters["share"]
    assert f"{100 * spent:.2g} % of the mechanism's budget" in second.text


def test_ranges_of_a_schema():
    columns = (
        Column("age", range=(0, 120)),
        Column("sex", "category", categories=("F", "M")),
        Column("born", "date", range=("1900-01-01", "2025-12-31")),
    )
    schema = Schema(columns, "the data office", "2026-01-31")
    frame = pd.DataFrame({"age": [30.0, 60.0] * 500, "sex": ["F", "M"] * 500, "born": ["1990-05-01"] * 1000})
    release = PrivateCovariance(epsilon=2.0, schema=schema).fit(frame).release_
    bounds = read_record(release).bounds
    assert bounds.ranges_source == "schema"
    low, high = schema.bounds
    assert ranges_of(release) == [(0.0, 120.0), (0.0, 1.0), (0.0, 1.0), (low[3], high[3])]
    text = answer(render_report(release), "6. Which ranges and clipping bounds were used?")
    assert "declared in the schema by the data office on 2026-01-31" in text
    for declared in ("0 to 120", "F, M", "1900-01-01 to 2025-12-31"):
        assert declared in text


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_ranges_that_were_estimated_privately_state_their_share_of_the_budget(delta):
    rows = np.random.default_rng(0).normal(size=(60_000, 9)) * np.arange(1, 10) / 3 + 7
    release = PrivatePCA(2, epsilon=2.0, delta=delta).fit(rows).release_
    assert ("mean" in release.integers) == bool(delta)
    bounds = read_record(release).bounds
    assert bounds.ranges_source == "private"
    # The middles and widths that were found are on a public grid: a power of two times 1 or the root of two.
    for one in bounds.ranges:
        steps = 2 * np.log2((one.high - one.low) / 2)
        assert steps == pytest.approx(round(steps), abs=1e-6)
        assert one.low < 7 < one.high
    record = report_record(release)["bounds"]
    text = answer(render_report(release), "6. Which ranges and clipping bounds were used?")
    if delta:  # all of it is one Gaussian budget
        assert record["estimated_privately"] == {"bounds": None, "norm_bound": None}
        assert "of the mechanism's budget (as a share of mu²)" in text
    else:
        assert record["estimated_privately"] == {
            "bounds": {"epsilon": 0.32, "share": pytest.approx(0.16)},
            "norm_bound": {"epsilon": 0.2, "share": pytest.approx(0.1)},
        }
        assert "estimated privately with epsilon = 0.32 (16 % of the budget)" in text
        assert "estimated privately with epsilon = 0.2 (10 % of the budget)" in text
    assert GIVEN not in report_record(release)["assumptions"]


def test_bounds_in_a_file_are_checked(tmp_path):
    release = drawn()
    for bad in (((3.0, 1.0),), ((0.0, 1.0),) * 2, ((0.0, float("inf")),)):
        with pytest.raises(ValueError, match="given_bounds"):
            with_origin(release, given_bounds=bad).origin.check(6)
    release.origin.check(6)


# Is one row one person?


def test_one_row_per_person_is_an_assumption_where_no_privacy_unit_was_given():
    release = drawn(epsilon=1.0)
    unit = report_record(release)["privacy_unit"]
    assert (unit["given"], unit["assumes_one_row_per_person"]) == (False, True)
    text = answer(render_report(release), "3. Is one row one person?")
    assert "This is assumed. No privacy unit was given" in text
    assert f"with two rows the factor {odds_factor(1.0)} becomes {odds_factor(2.0)}, and delta grows too" in text
    assert "One row is one person." in report_record(release)["assumptions"]


def test_a_privacy_unit_is_named():
    columns = (*(Column(name, range=(-15, 15)) for name in NAMES), Column("patient", "privacy_unit"))
    frame = FRAME.assign(patient=np.arange(len(FRAME)) // 3)
    release = PrivatePCA(2, epsilon=2.0, schema=Schema(columns)).fit(frame).release_
    unit = report_record(release)["privacy_unit"]
    assert (unit["given"], unit["column"], unit["assumes_one_row_per_person"]) == (True, "patient", False)
    text = answer(render_report(release), "3. Is one row one person?")
    assert "A privacy unit was given (column patient)" in text
    assert "One row is one person." not in words(render_report(release))
    assert "Several rows of the same person" not in words(render_report(release))


# Meaning and assumptions.


def test_what_epsilon_means_is_told_in_odds():
    release = drawn("matrix_laplace", epsilon=1.0)
    page = words(render_report(release))
    assert "This release changes the odds about one person by at most a factor of 2.72" in page
    assert "the attacker's prior odds are 1:1 (50 %)" in page
    assert "After this release the attacker's belief is between 26.8 % and 73.2 %." in page
    for one in report_record(release)["meaning"]["beliefs"]:
        assert (one["lowest"], one["highest"]) == belief_range(one["prior"], 1.0)
        assert f"{one['prior_odds']} ({100 * one['prior']:.0f} %)" in page


def test_every_assumption_is_listed_in_the_open():
    guarantee = Guarantee(1.0, assumptions=("Assumes that a < b.", "Holds only if c."))
    release = drawn("matrix_laplace", guarantee=guarantee)
    page = render_report(release)
    text = answer(page, "5. What does it assume?")
    for sentence in ("A < b.", "Holds only if c.", "The number of rows (3,000) is public.", "One row is one person."):
        assert sentence in text
    start = page.index("5. What does it assume?")
    assert "<details" not in page[start : page.index("</section>", start)]


# The total spend.


def test_the_total_has_what_the_ledger_lacks_and_says_what_it_cannot_know(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "study.ledger", epsilon=2.0, data_set="study")
    ledger.spend(Guarantee(1.5), "an earlier release")
    release = drawn("matrix_laplace", epsilon=1.0)
    spent = report_record(release, ledger=ledger)["spending"]
    assert spent["total"] == {"epsilon": 2.5, "delta": 0.0}
    assert spent["ledger"]["spent"] == {"epsilon": 1.5, "delta": 0.0}
    assert spent["over_limit"]
    assert spent["not_in_ledger"] == ["this release"]
    assert [one["in_this_report"] for one in spent["entries"]] == [False, True]
    text = answer(render_report(release, ledger=ledger), "7. How much privacy budget was spent in total?")
    assert "Total known spend: epsilon = 2.5: epsilon = 1.5 in the ledger, the rest not in the ledger." in text
    assert "Not included: releases of the same data that this ledger does not record." in text
    assert "Other releases of the same data to be filled in" in text
    alone = report_record(release)["spending"]
    assert (alone["ledger"], alone["total"]) == (None, {"epsilon": 1.0, "delta": 0.0})
    assert "No ledger: this spend is not tracked." in words(render_report(release))
