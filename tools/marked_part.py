"""The part of a page that a tool writes: what stands between two marks."""


def with_part(page: str, begin: str, end: str, part: str) -> str:
    """Return the page with another text between its two marks."""
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise SystemExit(f"The page must hold the two lines {begin!r} and {end!r}.")
    return f"{before}{begin}\n\n{part}\n\n{end}{after}"
