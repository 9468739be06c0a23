"""What several test files need: one-sentence checks, and work done in forked child processes."""

import contextlib
import os
import pickle
import re
import signal
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from eigenveil import SecondMoments
from eigenveil.cli import app
from eigenveil.errors import PrivacyWarning
from eigenveil.postprocess import top_components
from eigenveil.tables.schema import Column, Schema


def scales(*sizes: float) -> Schema:
    """Return a schema of numbers of these public sizes, for arrays of as many columns."""
    return Schema(tuple(Column(f"feature {position}", scale=size) for position, size in enumerate(sizes)))


def assert_one_sentence(error: BaseException, *private: object) -> None:
    """The message is at most three sentences, ends with a period and holds none of the `private` values."""
    text = str(error)
    assert text.endswith("."), text
    assert "\n" not in text, text
    assert len(re.findall(r"[.!?]\s+[A-Z]", text)) <= 2, text
    assert len(text.split()) > 3, text
    for value in private:
        assert str(value) not in text, text


@contextlib.contextmanager
def refused(kind: type[BaseException], *private: object) -> Any:
    """Like `pytest.raises`, and the message must be short, without the `private` values."""
    with pytest.raises(kind) as info:
        yield info
    assert_one_sentence(info.value, *private)


def said(fit: Callable[[], object]) -> list[str]:
    """Return the privacy warnings of a fit, each of which is short."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    told = [str(one.message) for one in caught if issubclass(one.category, PrivacyWarning)]
    for sentence in told:
        assert_one_sentence(ValueError(sentence))
    return told


def drawn_directions(mechanism: Any, C: Any, generator: np.random.Generator, draws: int) -> Any:
    """Return the directions of so many releases by a mechanism on a second moment C of rows of norm at most 1."""
    grid = 2**32
    mechanism.check_grid(grid)
    gram, units = np.rint(np.asarray(C) * grid).astype(np.int64), mechanism.units(grid, 1 / grid)
    found = []
    for _ in range(draws):
        integers = mechanism.draw(gram, grid, 1, generator)
        values = {name: np.asarray(value * units[name]) for name, value in integers.items()}
        drawn = mechanism.directions(values)
        found.append(
            top_components(mechanism.second_moment(values, 1), mechanism.n_components) if drawn is None else drawn
        )
    return np.stack(found)


def fork() -> int:
    """`os.fork` without the warning about threads: children here use only what is safe after a fork."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


@dataclass
class Child:
    """A forked process that runs one function and sends back what it returned or raised."""

    pid: int
    pipe: int

    def kill(self) -> bool:
        """Kill without warning, as a power cut would; return whether it was still running."""
        os.kill(self.pid, signal.SIGKILL)
        os.close(self.pipe)
        return os.WIFSIGNALED(os.waitpid(self.pid, 0)[1])

    def result(self) -> Any:
        """Wait, and return what the function returned, or the exception it raised."""
        with os.fdopen(self.pipe, "rb") as pipe:
            content = pipe.read()
        status = os.waitpid(self.pid, 0)[1]
        assert content, f"the child died without an answer, status {status}"
        kind, value = pickle.loads(content)
        assert kind != "crash", value
        return value


def start_child(function: Callable[[], Any], expected: tuple[type[BaseException], ...] = ()) -> Child:
    """Run `function` in a forked process; exceptions of the `expected` kinds are returned, others fail."""
    reading, writing = os.pipe()
    pid = fork()
    if pid:
        os.close(writing)
        return Child(pid, reading)
    try:  # the child must never return into pytest
        try:
            answer: tuple[str, Any] = ("value", function())
        except expected as error:
            answer = ("value", error)
        except BaseException:
            answer = ("crash", traceback.format_exc())
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(answer, pipe)
    finally:
        os._exit(0)


def in_child(function: Callable[[], Any], expected: tuple[type[BaseException], ...] = ()) -> Any:
    """Run `function` in a forked process and return its result."""
    return start_child(function, expected).result()


def command_result(*words):
    """Run a command, and return its result whatever became of it."""
    return CliRunner().invoke(app, [str(word) for word in words])


def invoked(*words, fails=None):
    """Run a command; return its result, or where it `fails` its one sentence, without the secret cells of the table."""
    result = command_result(*words)
    if fails is not None:
        assert isinstance(result.exception, fails), (result.output, result.exception)
        assert_one_sentence(result.exception, "secret")
        assert result.stdout == ""
        return str(result.exception)
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def database(path):
    """The file in the folder of a ledger or of a collection."""
    (found,) = path.glob("*.sqlite")
    return found


def put(file, content):
    """Write a database, and remove what SQLite keeps beside it."""
    file.write_bytes(content)
    for beside in file.parent.glob(f"{file.name}-*"):
        beside.unlink()


def moments_on(differences_buffer, rule, rows, cuts=()):
    """Return the moments of rows on a ring, pushed in batches that end at `cuts`, with the ring closed."""
    moments = SecondMoments(rule, rows.shape[1])
    for batch in np.split(rows, sorted(cuts)):
        for part in differences_buffer.push(batch):
            if part.shape[0]:
                moments.update(part)
    for part in differences_buffer.closing():
        moments.update(part)
    return moments


def residual_covariance(error, weights):
    """Return the covariance of the errors of M times `weights`, a vector, for the `MatrixError` of M."""
    factor, columns, covariance = error.residual_terms(weights)
    found = factor * error.products + columns @ covariance @ columns.T
    return found + np.diag(error.extra * weights**2)


def left_for_the_matrix(split):
    """The share of mu^2 that the matrix has where all other parts of a split are spent."""
    parts = "gaussian_ranges gaussian_norm mean residual_norm further_rounds pilot preconditioned_norm"
    return 1 - sum(getattr(split, part) for part in parts.split())
