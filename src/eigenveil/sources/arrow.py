"""PyArrow is an extra: whatever needs it asks here, before it is imported."""

from importlib.util import find_spec

from ..errors import EngineError


def has_arrow() -> bool:
    """Tell whether PyArrow is installed."""
    return find_spec("pyarrow") is not None


def need_arrow(what: str) -> None:
    """Refuse in one sentence what cannot be read without PyArrow.

    Parameters
    ----------
    what : str
        What is to be read, as the beginning of the sentence.
    """
    if not has_arrow():
        raise EngineError(f"{what} can be read with PyArrow only; run pip install 'eigenveil[files]'.")
