"""Query engines: the same ANSI SQL on DuckDB or Spark."""
