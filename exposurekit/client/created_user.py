"""The id and secret of a created user, from whatever body holds them: nobody can ask for the secret again."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from exposurekit.contract import codec, forms
from exposurekit.contract.models import UserKey
from exposurekit.errors import InvalidResponse
from exposurekit.text.sanitize import unescaped

_NAME = (
    r"""(?<![\w-])(?:{0}(?:\\*["'])?\]?\s*(?:=>|[:=])\s*(?:{1})|<{0}(?:\s[^<>]*)?>\s*(?P<element>{2})\s*</)"""
)
_ID = re.compile(_NAME.format("id", r"""(?:\\*["'])?(?P<field>\d{1,19})(?![\w.])""", r"\d{1,19}"))
_SECRET = re.compile(
    # A value that may be cut off does not count: a quoted one ends with a quote, a bare one of JSON before a separator.
    _NAME.format(
        "secret",
        r"""(?P<open>\\*["'])(?P<quoted>[^"'\\<>]+)(?P=open)|(?<==)(?P<bare>[^\s"'\\<>&,;{}]+)"""
        r"""|(?P<number>[1-9]\d*)(?=[\s,}\]])|(?P<word>[^\s"'\\<>&,;{}\[\]]+)(?=[\s,;}&<])""",
        r"[^<>\s]+",
    )
)


def created_account(body: bytes) -> dict[str, Any] | None:
    """Find the object with an id and a secret in a response to Create user, even if the rest cannot be read."""
    readers: tuple[Callable[[bytes], Any], ...] = (
        lambda body: codec.decode(body, "json", tolerant=True),
        lambda body: codec.decode(body, "xml"),
        codec.objects_in,
        lambda body: forms.decode(body.decode().strip()),
        _nearest_pair,
    )
    for read in readers:
        with suppress(InvalidResponse, UnicodeError):
            if account := _account(read(body)):
                return account
    return None


def _account(values: Any) -> dict[str, Any] | None:
    if isinstance(values, dict):
        with suppress(ValidationError):
            key = UserKey.model_validate({name: values.get(name) for name in ("id", "secret")})
            return values | {"id": key.id, "secret": key.secret}
    inner = values.values() if isinstance(values, dict) else values if isinstance(values, list) else ()
    return next((account for value in inner if (account := _account(value))), None)


def _nearest_pair(body: bytes) -> dict[str, Any] | None:
    """The first secret in a text, and the id that stands nearest, before it rather than after it."""
    text = unescaped(codec.utf8(body).decode(errors="replace").replace("\0", ""))
    ids = [(match.start(), int(match["field"] or match["element"])) for match in _ID.finditer(text)]
    for start, secret in _secrets(text):
        if ids:
            _, user_id = min(ids, key=lambda one: (one[0] > start, abs(one[0] - start)))
            return {"id": user_id, "secret": secret}
    return None


def _secrets(text: str) -> Iterator[tuple[int, str | int]]:
    for match in _SECRET.finditer(text):
        value = match["quoted"] or match["bare"] or match["word"] or match["element"]
        yield match.start(), value or int(match["number"])
