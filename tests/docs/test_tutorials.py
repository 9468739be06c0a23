"""The tutorials run as they stand, and their command line is their Python: with the same noise, the same release."""

import pytest

from eigenveil import PrivacyLedger, load_release
from page_snippets import assert_same_release, run_command, run_page, said

FIRST, MEDICAL = "docs/tutorials/first_release.md", "docs/tutorials/medical_table.md"
pytestmark = pytest.mark.usefixtures("noise_that_repeats")


def test_the_medical_table_runs_in_order_in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run_page(MEDICAL)
    for snippet in done:
        assert set(said(snippet)) <= set(snippet.printed.splitlines())
    assert [snippet.kind for snippet in done].count("command") == 3
    assert_same_release(load_release("tumours.npz"), load_release("clinic.npz"))
    assert PrivacyLedger("tumours.ledger").spent == PrivacyLedger("clinic.ledger").spent == (2.0, 0.0)
    for name in ("tumours.html", "clinic.html"):
        assert "<html" in (tmp_path / name).read_text(encoding="utf-8")


def test_another_parameter_is_another_release(tmp_path, monkeypatch):
    """The control: what makes the tutorial's two ways the same is that they ask for the same."""
    monkeypatch.chdir(tmp_path)
    run_command("eigenveil demo")
    fit = "eigenveil pca eigenveil-demo/tumours.csv -k 2 --epsilon 2"
    run_command(f"{fit} --standardize --output one.npz")
    run_command(f"{fit} --standardize --columns radius,texture,area --output other.npz")
    assert_same_release(load_release("eigenveil-demo/tumours.npz"), load_release("one.npz"))
    with pytest.raises(AssertionError):
        assert_same_release(load_release("one.npz"), load_release("other.npz"))


def test_the_first_release_is_the_same_by_commands_and_in_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run_page(FIRST)
    (schema,) = (snippet for snippet in done if snippet.text.startswith("eigenveil schema"))
    assert "eigenveil pca eigenveil-demo/tumours.csv" in schema.printed
    assert "draft: false" in schema.printed
    assert_same_release(load_release("tumours.npz"), load_release("again.npz"))
    assert load_release("tumours.npz").above_noise.all()
    assert PrivacyLedger("tumours.ledger").spent == PrivacyLedger("again.ledger").spent == (2.0, 0.0)
