"""Tables as plain values, for comparisons."""


def rows(table):
    return [tuple(row) for row in table.itertuples(index=False)]


def shape(table):
    """Return the columns with their dtypes."""
    return {name: str(dtype) for name, dtype in table.dtypes.items()}
