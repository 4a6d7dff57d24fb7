"""Errors are copied and pickled completely."""

import copy
import pickle

import pytest

from exposurekit import errors

ERRORS = [
    errors.ConfigurationError("set it"),
    errors.InvalidArgument("0 to 1"),
    errors.Unauthorized("no", status=401, operation="Get user"),
    errors.APIStatusError("later", status=429, operation="Get user", retry_after_s=2.0),
    errors.ConnectionFailed("cut", operation="Create user", maybe_received=True),
    errors.MissingColumns("by_site", ["site"]),
]


@pytest.mark.parametrize("error", ERRORS, ids=repr)
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])  # noqa: S301
def test_copied_or_pickled_error_is_equal(error, again):
    other = again(error)
    assert type(other) is type(error)
    assert str(other) == str(error)
    assert vars(other) == vars(error)


def test_missing_columns_are_named():
    errors.MissingColumns.check("by_site", ["site", "status"], ["site"])
    with pytest.raises(errors.MissingColumns, match="by_site needs the columns status, age"):
        errors.MissingColumns.check("by_site", ["site"], ["site", "status", "age"])
