"""Files read by Spark, and the session that reads them."""

import os
import shutil
import sys
from typing import Any

from ..errors import EngineError, InvalidDataError


def read_parquet(places: list[str], person: str | None = None) -> Any:
    """Return the Spark data frame of Parquet files."""
    del person  # of the type that the file says
    return spark_session().read.parquet(*places)


def read_csv(places: list[str], person: str | None = None) -> Any:
    """Return the Spark data frame of CSV files with headers."""
    # Fail rather than guess: by default a malformed row becomes NULLs, and headers of later files are not looked at.
    reader = spark_session().read.options(header=True, enforceSchema=False, mode="FAILFAST")
    frame = reader.csv(places, inferSchema=True)
    if person in frame.columns:  # "007" must not become 7
        kinds = {field.name: field.dataType.simpleString() for field in frame.schema} | {person: "string"}
        frame = reader.csv(places, schema=", ".join(f"`{name.replace('`', '``')}` {kinds[name]}" for name in kinds))
    if len(frame.columns) == 1:
        raise InvalidDataError(
            "Spark skips blank lines, which are missing values in a CSV file of one column; give such a table as "
            "Parquet."
        )
    return frame


def spark_session() -> Any:
    """Return the active Spark session, or start one in local mode with the Java of this machine."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is not None:
        return session
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java" if not home else os.path.join(home, "bin", "java")) is None:
        where = "JAVA_HOME points to a folder without it" if home else "there is none on the path"
        raise EngineError(f"Spark needs Java 17 or later, and {where}; install it, or set JAVA_HOME to its folder.")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers need the packages of this Python
    builder = SparkSession.builder.appName("eigenveil").config("spark.ui.enabled", "false")
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # spark-submit has chosen the master already
        builder = builder.master("local[*,4]")  # all cores, and three retries of a failed task
    try:
        return builder.getOrCreate()
    except Exception:
        raise EngineError(
            "Spark did not start; check that `java -version` says 17 or later, and what Spark wrote above."
        ) from None
