"""Pseudonyms of people in shared reports: the same person has the same one wherever the same key is used."""

import base64
import hmac

from exposurekit.system import key_files, paths

_HALF = 5  # characters before and after the dash: 50 bits, so that few of a million people share one


class Pseudonyms:
    """Pseudonyms that nobody without the key can map to ids, not even by trying all ids.

    >>> from exposurekit.privacy.pseudonyms import Pseudonyms
    >>> some, others = Pseudonyms(b"k" * 32), Pseudonyms(b"K" * 32)
    >>> some.of(12) == some.of(12), some.of(12) == some.of(13), some.of(12) == others.of(12)
    (True, False, False)
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __repr__(self) -> str:
        return "Pseudonyms(...)"

    def of(self, user_id: int) -> str:
        """Return the pseudonym of a user: five letters or digits, a dash, and five.

        >>> from exposurekit.privacy.pseudonyms import Pseudonyms
        >>> len(Pseudonyms(b"k" * 32).of(12))
        11
        """
        digest = hmac.digest(self._key, b"user %d" % user_id, "sha256")
        digits = base64.b32encode(digest).decode().lower()
        return f"{digits[:_HALF]}-{digits[_HALF : 2 * _HALF]}"


def load_pseudonyms() -> Pseudonyms:
    """Load the pseudonyms of this machine; the first use creates their key, readable by its owner alone.

    Without the key, all pseudonyms change.

    Raises:
        ConfigurationError: The key is damaged, others may read it, or it can be neither read nor created.

    >>> from exposurekit.privacy import pseudonyms
    >>> pseudonyms.load_pseudonyms().of(12) == pseudonyms.load_pseudonyms().of(12)
    True
    """
    return Pseudonyms(key_files.load_or_create(paths.config_dir() / "pseudonyms.key", "the pseudonyms'"))
