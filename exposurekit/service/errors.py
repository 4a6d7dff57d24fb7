"""The service's no: a status and a message for the caller. Never holds a value that came in the request."""

from exposurekit.errors import ExposureError


class ApiError(ExposureError):
    """An answer other than 200.

    >>> str(ApiError(400, "limit is invalid", "offset is invalid"))
    'limit is invalid, offset is invalid'
    """

    def __init__(
        self, status: int, *problems: str, closes: bool = False, retry_after_s: int | None = None
    ) -> None:
        self.status = status
        self.closes = closes  # the body may not have been read to its end: no second request on it
        self.retry_after_s = retry_after_s
        super().__init__(", ".join(problems))
