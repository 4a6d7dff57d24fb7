"""Files of ticks: which manual steps somebody did, and when, as the page of a report saves them."""

from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from exposurekit.errors import InvalidArgument

BYTES_MAX = 10 * 2**20
_ITEMS_MAX = 100_000
_INVALID = "This is not a file of ticks: pass one that Save ticks in a report wrote"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class TickedItem(_Model):
    """A listing or page whose steps are all done. Numbers are texts, since a browser's have 53 bits."""

    user_id: Annotated[int, Field(ge=0, lt=2**63, strict=False)]
    item: Annotated[int, Field(ge=-(2**63), lt=2**63, strict=False)]  # its key
    ticked_at: AwareDatetime


class _TicksFile(_Model):
    format: Literal["exposurekit ticks 1"]
    ticks: list[TickedItem] = Field(max_length=_ITEMS_MAX)


def parse_ticks(body: bytes) -> list[TickedItem]:
    """Parse a file of ticks.

    Raises:
        InvalidArgument: It is not such a file, or has more than `BYTES_MAX` bytes.

    >>> from exposurekit.contract.ticks_file import parse_ticks
    >>> item = b'{"user_id": "1", "item": "-7", "ticked_at": "2026-03-01T09:00:00Z"}'
    >>> parse_ticks(b'{"format": "exposurekit ticks 1", "ticks": [' + item + b"]}")[0].item
    -7
    """
    if len(body) > BYTES_MAX:
        raise InvalidArgument(_INVALID)
    try:
        return _TicksFile.model_validate_json(body).ticks
    except ValidationError:
        raise InvalidArgument(_INVALID) from None
