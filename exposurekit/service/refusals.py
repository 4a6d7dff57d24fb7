"""The service's no: a status and a message for the caller. Never holds a value that came in the request."""

from exposurekit.errors import ExposureError


class Refusal(ExposureError):
    """An answer other than 200.

    >>> str(Refusal(400, "limit is invalid", "offset is invalid"))
    'limit is invalid, offset is invalid'
    """

    def __init__(self, status: int, *problems: str, closes: bool = False) -> None:
        self.status = status
        self.closes = (
            closes  # the body may not have been read to its end: the connection cannot be used again
        )
        super().__init__(", ".join(problems))
