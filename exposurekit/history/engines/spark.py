"""Apache Spark as a query engine, over the same files. Needs pyspark and Java only when it is used."""

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
    partitioned_by,
    path_of,
    plain,
    quoted,
    type_names,
)


class Spark:
    """Runs queries on a cluster, one at a time.

    Args:
        engine: A Spark session, or the address of a master: ``"spark://host:7077"``, ``"local-cluster[2,1,1024]"``.
            Your session is not changed: queries run in a new one with its settings. With an address, further settings
            come from `spark-defaults.conf`.

    Raises:
        ConfigurationError: pyspark or Java is missing, Spark does not start, or a session of another master runs here.

    >>> from exposurekit.history.engines.spark import Spark
    >>> Spark("nowhere://")
    Traceback (most recent call last):
    exposurekit.errors.ConfigurationError: A Spark master is spark://host:port or local-cluster[workers,cores,megabytes]
    """

    _SETTINGS = (
        ("spark.sql.session.timeZone", "UTC"),
        ("spark.sql.timestampType", "TIMESTAMP_LTZ"),
        ("spark.sql.caseSensitive", "false"),
        # Quotes as in the standard, and as `bind_values` writes texts. Spark inserts parameter values into its text by
        # these rules: under other ones, a value could change or break out of its quotes.
        ("spark.sql.ansi.enabled", "true"),
        ("spark.sql.ansi.doubleQuotedIdentifiers", "true"),
        ("spark.sql.parser.escapedStringLiterals", "false"),
        ("spark.sql.legacy.consecutiveStringLiterals.enabled", "false"),
        ("spark.sql.variable.substitute", "false"),
        # The number of tasks that list files, instead of one per file.
        ("spark.sql.sources.parallelPartitionDiscovery.parallelism", "32"),
        # A missing file is an error, never left out of the result.
        ("spark.sql.files.ignoreMissingFiles", "false"),
        ("spark.sql.files.ignoreCorruptFiles", "false"),
    )

    def __init__(self, engine: object) -> None:
        session, is_own = _session_at(engine) if isinstance(engine, str) else (engine, False)
        caller_session: Any = session
        self._own_session = caller_session if is_own else None
        self._caller_session = caller_session
        self._session = caller_session.newSession()
        current = self._session.conf.getAll
        differing = {
            name: value for name, value in caller_session.conf.getAll.items() if current.get(name) != value
        }
        for name, value in (differing | dict(self._SETTINGS)).items():
            self._session.conf.set(name, value)
        self._lock = threading.Lock()

    def ask(
        self, sql: str, tables: Mapping[str, Files | pa.Table], parameters: Mapping[str, Any]
    ) -> pa.Table:
        """As `Engine.ask`."""
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # has none
        from pyspark.errors import PySparkException

        text, values = bind_values(sql, parameters, mark=":", dialect=SPARK)
        with self._lock, contextlib.ExitStack() as views:
            try:
                for name, table in tables.items():
                    self._frame(table).createOrReplaceTempView(checked(name))
                    views.callback(self._session.catalog.dropTempView, name)
                rows = self._session.sql(text, args=values).toArrow()
            except (PySparkException, Py4JError) as error:
                if re.search("PATH_NOT_FOUND|FILE_NOT_EXIST|FileNotFoundException", str(error)):
                    raise StaleSnapshot from None
                if re.search("FAILED_READ_FILE|not a Parquet file|CANNOT_READ_FILE", str(error)):
                    raise CorruptHistory from None
                raise
        return plain(rows)

    def close(self) -> None:
        """As `Engine.close`: a session that you passed stays open."""
        if self._own_session is not None:
            self._own_session.stop()
            self._own_session = None

    def _frame(self, table: Files | pa.Table) -> Any:
        if isinstance(table, pa.Table):
            with _restoring_active_session(self._session, self._caller_session):
                return self._session.createDataFrame(plain(table))
        columns = {field.name: type_names(field)[1] for field in table.schema}
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
    """Return a session of this master, and whether it was started here."""
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
                "A Spark session of another master runs in this process: stop it, or pass it"
            )
        return running, False
    java = Path(os.environ["JAVA_HOME"]) / "bin" if os.environ.get("JAVA_HOME") else None
    if shutil.which("java", path=java) is None:
        raise ConfigurationError("Spark needs Java 17 or newer: install it, or set JAVA_HOME")
    try:
        return SparkSession.builder.master(master).appName("exposurekit").getOrCreate(), True
    except PySparkException:
        raise ConfigurationError(
            "Spark did not start; it needs Java 17 or newer. See its messages above"
        ) from None


@contextlib.contextmanager
def _restoring_active_session(session: Any, caller_session: Any) -> Iterator[None]:
    """Restore the active session afterwards: Spark activates the session that created a frame last."""
    before = type(session).getActiveSession() or caller_session
    yield
    before.createDataFrame([], "nothing INT")
