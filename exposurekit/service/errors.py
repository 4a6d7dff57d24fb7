"""The API's error: a status and a message, which never holds a value of the request."""

from exposurekit.errors import ExposureError

QUOTA_REASON = "quota"  # an integrator may not have more people


class ApiError(ExposureError):
    """A response other than 200.

    >>> str(ApiError(400, "limit is invalid", "offset is invalid"))
    'limit is invalid, offset is invalid'
    """

    def __init__(
        self,
        status: int,
        *problems: str,
        closes: bool = False,
        retry_after_s: int | None = None,
        reason: str | None = None,
    ) -> None:
        self.status = status
        self.reason = reason  # in the metrics, if not that of the status
        self.closes = closes  # the body may be unread, so the connection cannot be reused
        self.retry_after_s = retry_after_s
        super().__init__(", ".join(problems))
