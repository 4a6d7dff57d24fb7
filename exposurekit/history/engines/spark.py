"""Questions asked on a cluster: Apache Spark, over the same files. Needs pyspark and Java, and only when used."""

import contextlib
import os
import re
import shutil
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from exposurekit.errors import ConfigurationError
from exposurekit.history.engines.base import (
    SPARK,
    CorruptHistory,
    Files,
    StaleSnapshot,
    bind_values,
    checked,
    named,
    partitioned_by,
    path_of,
    plain,
    quoted,
)


class Spark:
    """Answers on a cluster, one question at a time.

    Args:
        engine: A Spark session, or the address of a master: ``"spark://host:7077"``, ``"local-cluster[2,1,1024]"``.
            A session of yours is left as it is: questions are asked in one beside it, with its settings.
            Where you give an address, what a session needs beside it is read from `spark-defaults.conf`.

    Raises:
        ConfigurationError: pyspark or Java is missing, Spark does not start, or a session of another master runs here.

    >>> from exposurekit.history.engines.duckdb import Spark
    >>> Spark("nowhere://")
    Traceback (most recent call last):
    exposurekit.errors.ConfigurationError: A Spark master is spark://host:port or local-cluster[workers,cores,megabytes]
    """

    _SETTINGS = (
        ("spark.sql.session.timeZone", "UTC"),
        ("spark.sql.timestampType", "TIMESTAMP_LTZ"),
        ("spark.sql.caseSensitive", "false"),
        # Quotes as in the standard, and as `bind_values` writes texts. Spark writes the parameters' values into its text
        # by these rules: under another session's, a value would not come as it is, or come out of its quotes.
        ("spark.sql.ansi.enabled", "true"),
        ("spark.sql.ansi.doubleQuotedIdentifiers", "true"),
        ("spark.sql.parser.escapedStringLiterals", "false"),
        ("spark.sql.legacy.consecutiveStringLiterals.enabled", "false"),
        ("spark.sql.variable.substitute", "false"),
        # Files are looked up by so many tasks together, instead of by one for each file.
        ("spark.sql.sources.parallelPartitionDiscovery.parallelism", "32"),
        # A file that is gone is told, never left out of the answer.
        ("spark.sql.files.ignoreMissingFiles", "false"),
        ("spark.sql.files.ignoreCorruptFiles", "false"),
    )

    def __init__(self, engine: object) -> None:
        given = _session_at(engine) if isinstance(engine, str) else (engine, False)
        theirs: Any = given[0]
        self._begun = theirs if given[1] else None
        self._theirs = theirs
        self._session = theirs.newSession()
        here = self._session.conf.getAll
        wanted = {name: value for name, value in theirs.conf.getAll.items() if here.get(name) != value}
        for name, value in (wanted | dict(self._SETTINGS)).items():
            self._session.conf.set(name, value)
        self._turn = threading.Lock()

    def ask(
        self, sql: str, tables: Mapping[str, Files | pa.Table], parameters: Mapping[str, Any]
    ) -> pa.Table:
        """As `Engine.ask`."""
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # has none
        from pyspark.errors import PySparkException

        text, values = bind_values(sql, parameters, mark=":", dialect=SPARK)
        with self._turn, contextlib.ExitStack() as views:
            try:
                for name, table in tables.items():
                    self._frame(table).createOrReplaceTempView(checked(name))
                    views.callback(self._session.catalog.dropTempView, name)
                found = self._session.sql(text, args=values).toArrow()
            except (PySparkException, Py4JError) as error:
                if re.search("PATH_NOT_FOUND|FILE_NOT_EXIST|FileNotFoundException", str(error)):
                    raise StaleSnapshot from None
                if re.search("FAILED_READ_FILE|not a Parquet file|CANNOT_READ_FILE", str(error)):
                    raise CorruptHistory from None
                raise
        return plain(found)

    def close(self) -> None:
        """As `Engine.close`: a session that was given goes on."""
        if self._begun is not None:
            self._begun.stop()
            self._begun = None

    def _frame(self, table: Files | pa.Table) -> Any:
        if isinstance(table, pa.Table):
            with _as_active_as_before(self._session, self._theirs):
                return self._session.createDataFrame(plain(table))
        columns = {field.name: named(field)[1] for field in table.schema}
        if not table.uris:
            nulls = ", ".join(f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in columns.items())
            return self._session.sql(f"SELECT {nulls} WHERE FALSE")
        declared = ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in columns.items())
        reader = self._session.read.schema(declared).option("__globPaths__", "false")
        paths = [path_of(uri) for uri in table.uris]
        if within := partitioned_by(paths[0], columns):
            reader = reader.option("basePath", paths[0].partition(f"/{within[0]}=")[0])
        return reader.parquet(*paths).select(*(f"`{name.replace('`', '``')}`" for name in columns))


def _session_at(master: str) -> tuple[Any, bool]:
    """A session of this master, and whether it was begun here."""
    if not re.match(r"spark://|local-cluster\[", master):
        raise ConfigurationError(
            "A Spark master is spark://host:port or local-cluster[workers,cores,megabytes]"
        )
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise ConfigurationError("Spark needs pyspark: pip install 'exposurekit[spark]'") from None
    running = SparkSession.getActiveSession()
    if running is not None:
        if running.sparkContext.master != master:
            raise ConfigurationError(
                "A Spark session of another master runs in this process: stop it, or give it"
            )
        return running, False
    java = Path(os.environ["JAVA_HOME"]) / "bin" if os.environ.get("JAVA_HOME") else None
    if shutil.which("java", path=java) is None:
        raise ConfigurationError("Spark needs Java 17 or newer: install it, or say in JAVA_HOME where it is")
    try:
        return SparkSession.builder.master(master).appName("exposurekit").getOrCreate(), True
    except PySparkException:
        raise ConfigurationError(
            "Spark did not start; it needs Java 17 or newer, and says more above"
        ) from None


@contextlib.contextmanager
def _as_active_as_before(session: Any, theirs: Any) -> Iterator[None]:
    """Spark makes the session that last made a frame the active one: let the caller's make one after."""
    before = type(session).getActiveSession() or theirs
    yield
    before.createDataFrame([], "nothing INT")
