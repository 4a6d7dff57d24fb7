"""Error masking: the reason in an error response, with everything but common words replaced by ``***``."""

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from exposurekit.client.calls import Call
from exposurekit.client.config import ClientConfig
from exposurekit.client.retry import Response
from exposurekit.contract import codec
from exposurekit.contract.inputs import AddressItem, AliasItem, EmailItem, PhoneNumberItem, Reason
from exposurekit.contract.operations import LIST_LIMIT_MAX, OPERATIONS
from exposurekit.contract.types import INT64_MAX
from exposurekit.errors import InvalidResponse
from exposurekit.text.sanitize import plain

_READ_MAX, _REASON_MAX = 10_000, 200
_MASK = "***"
_REVEALING = re.compile(r"\S*@\S*|\S*://\S*|\S*/api/\S*|\d[\d .()-]{3,}\d|\"[^\"]*\"|'[^']*'")
# Words of the specification: shown even if they were sent.
_VOCABULARY = {
    *(name for operation in OPERATIONS for name in operation.names),
    *(name for item in (AliasItem, EmailItem, PhoneNumberItem, AddressItem) for name in item.model_fields),
    *("is", "are", "was", "the", "not", "and", "nor", "with", "must", "have", "has", "does", "user"),
    *("valid", "value", "missing", "invalid", "empty", "blank", "accepted"),
}
_COMMON = frozenset(files("exposurekit.client").joinpath("reason_words.txt").read_text("utf-8").split())
# Masked if capitalised.
_SURNAMES = (
    "call clear down field fields key keys long may new old page pass place read see short start wait worker"
)
_ALSO_NAMES = frozenset(_SURNAMES.split())
_PART = re.compile(
    r"(?P<count>\[\d+\]|\b\d[\d,]*(?= (?:bytes|characters|digits|items|KiB|people|seconds)\b))"
    r"|[^\s\[\]().,:;!?=<>{}|/*]+"
)
# The reasons of our own service, which contain no personal data, are shown as a whole.
_OWN_REASONS = (
    *(reason for name, reason in vars(Reason).items() if name.isupper()),
    *(Reason.integer(1, LIST_LIMIT_MAX), Reason.integer(0, INT64_MAX)),
)
_OWN_REASON = re.compile(rf"(\b(?:{'|'.join(map(re.escape, _OWN_REASONS))})(?!\w))")


def reason_of(call: Call[Any, Any], config: ClientConfig, response: Response) -> str:
    """Return the service's reason; empty without one.

    The text may repeat personal data, which only the service knows: values that were sent, addresses, quotations, long
    numbers and all words that are not common in such messages are masked.
    """
    body = response.body[:_READ_MAX]
    try:
        error = codec.decode(body, "xml" if body.lstrip()[:1] == b"<" else "json")
    except InvalidResponse:
        return ""
    text = plain(_error_text(error))
    sent = _texts(call.values, call.secret, config.api_key, config.api_secret, config.integration_name)
    sent |= {word for value in sent for word in re.findall(r"\w{3,}", value)}
    sent = {value for value in sent if value.lower() not in _VOCABULARY}
    values = "|".join(map(re.escape, sorted(sent, key=len, reverse=True)))
    sent_value = re.compile(rf"(?<!\w)(?:{values})(?!\w)", re.IGNORECASE)
    parts = _OWN_REASON.split(text)
    parts[::2] = (
        _PART.sub(_masked, _REVEALING.sub(_MASK, sent_value.sub(_MASK, part))) for part in parts[::2]
    )
    text = "".join(parts)[:_REASON_MAX]
    return text if re.search(r"\w", text) else ""


def _masked(part: re.Match[str]) -> str:
    text = part[0]
    word = text.lower().removesuffix("'s")
    is_name = word in _ALSO_NAMES and text[0].isupper()
    is_allowed = part["count"] or word in _VOCABULARY or (word in _COMMON and not is_name)
    return text if is_allowed else _MASK


def _error_text(error: Any) -> str:
    if isinstance(error, dict):
        inner = next((error[name] for name in ("error", "errors", "message") if name in error), None)
        return _by_field(inner) if isinstance(inner, dict) else _error_text(inner)
    if isinstance(error, list):
        return ", ".join(filter(None, map(_error_text, error)))
    return error if isinstance(error, str) else ""


def _by_field(errors: dict[str, Any]) -> str:
    """Join Rails errors by field, such as ``{"zip": ["is invalid"]}``, possibly nested once more."""
    if text := _error_text(errors):
        return text
    return ", ".join(f"{name} {text}" for name, field in errors.items() for text in _error_texts(field))


def _error_texts(error: Any) -> list[str]:
    return [text for one in (error if isinstance(error, list) else [error]) if (text := _error_text(one))]


def _texts(*values: Any) -> set[str]:
    texts: set[str] = set()
    for value in values:
        if isinstance(value, Mapping):
            texts |= _texts(*value.values())
        elif isinstance(value, list):
            texts |= _texts(*value)
        elif value not in {None, True, False, ""}:
            texts.add(str(value))
    return texts
