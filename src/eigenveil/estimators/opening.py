"""From what a caller gives to `fit` to a source of rows, or of whole persons."""

from numbers import Integral
from typing import Any

import numpy as np

from ..errors import InvalidDataError, InvalidParameterError
from ..schema import Schema
from ..sources import Source, is_source, open_table
from ..sources.weighting import WeightedTable


def opened(estimator: Any, data: Any, *, schema: Any = None, person: Any = None, sample_weight: Any = None) -> Source:
    """Return the source of data, encoded by the schema of an estimator or of its `fit`, with its persons or weights."""
    source = _opened(estimator, data, schema, person)
    return source if sample_weight is None else WeightedTable(source, sample_weight)


def _opened(estimator: Any, data: Any, schema: Any, person: Any) -> Source:
    schema = checked_schema(_given_once("schema", estimator.schema, schema))
    person = _person(estimator, person)
    if is_source(data):
        if schema is not None and getattr(data, "schema", None) != schema:
            raise InvalidParameterError(
                "The table was opened without the schema of the estimator; give it to one of them."
            )
        if person is not None and not getattr(data, "by_person", False):
            raise InvalidParameterError("The table was opened without its persons; give person to open_table.")
        return open_table(data)
    try:
        return open_table(data, schema=schema, person=person)
    except InvalidDataError as error:  # one of ours: its text is changed in place, so that no second error holds it
        # An estimator has no columns=; its caller opens the table.
        error.args = (str(error).replace(" columns=", " sources.open_table(data, columns=...)"),)
        raise


def _given_once(name: str, of_estimator: Any, of_fit: Any) -> Any:
    if of_estimator is not None and of_fit is not None and of_estimator != of_fit:
        raise InvalidParameterError(f"fit was given another {name} than the estimator has; give it to one of them.")
    return of_fit if of_estimator is None else of_estimator


def person_column(estimator: Any) -> Any:
    """Return the column that the parameter `person` names, or None; identifiers are no parameter."""
    person = estimator.person
    if person is None or isinstance(person, str):
        return person
    if isinstance(person, Integral) and not isinstance(person, bool | np.bool_):
        return int(person)
    # A parameter is printed, copied and pickled; identifiers of persons must not be.
    raise InvalidParameterError("person is the column that tells persons apart; give a list of identifiers to fit.")


def _person(estimator: Any, of_fit: Any) -> Any:
    column = person_column(estimator)
    if of_fit is None or column is None:
        return column if of_fit is None else of_fit
    if isinstance(of_fit, str | Integral):
        return _given_once("person", column, of_fit)
    raise InvalidParameterError("The estimator has a column of persons; leave the list of identifiers out of fit.")


def names_persons(estimator: Any, schema: Schema | None) -> bool:
    """Return whether persons are the unit by what is public before a table is opened."""
    return person_column(estimator) is not None or (schema is not None and schema.person is not None)


def checked_schema(schema: Any) -> Schema | None:
    """Return the schema of an estimator, or refuse what cannot be read with it."""
    if schema is None:
        return None
    if not isinstance(schema, Schema):
        raise InvalidParameterError("schema must be a Schema; Schema.load reads one from a file.")
    schema.check_complete()
    return schema
