"""Names that stand for people in what is shared: the same person has the same one in all that one key made."""

import base64
import hmac

from exposurekit.system import key_files, paths

_HALF = 5  # letters before the dash, and after: 50 bits, so that of a million people hardly any two share one


class Pseudonyms:
    """What people are called in what is shared; who lacks the key cannot tell whom it means, nor try all ids.

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
        """Five letters or digits, a dash, and five.

        >>> from exposurekit.privacy.pseudonyms import Pseudonyms
        >>> len(Pseudonyms(b"k" * 32).of(12))
        11
        """
        digest = hmac.digest(self._key, b"user %d" % user_id, "sha256")
        digits = base64.b32encode(digest).decode().lower()
        return f"{digits[:_HALF]}-{digits[_HALF : 2 * _HALF]}"


def load_pseudonyms() -> Pseudonyms:
    """The pseudonyms of this machine: their key is made at first use, for its owner alone, and never leaves.

    Who takes the key away calls everyone otherwise from then on.

    Raises:
        ConfigurationError: The key is damaged, others may read it, or it can be neither read nor made.

    >>> from exposurekit.privacy import pseudonyms
    >>> pseudonyms.load_pseudonyms().of(12) == pseudonyms.load_pseudonyms().of(12)
    True
    """
    return Pseudonyms(key_files.load_or_create(paths.config_dir() / "pseudonyms.key", "the pseudonyms'"))
