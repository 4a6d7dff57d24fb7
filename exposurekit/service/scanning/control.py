"""Negative control: a random invented person, whom no working site should list."""

import secrets

from exposurekit.service.accounts.subject import Name, Place, Subject

# Common syllables, so that the names look plausible; long ones, so that nobody has this name.
_ONSETS = "b br c ch d dr f g gr h j k l m n p pr qu r s sh st t th tr v w z".split()  # noqa: SIM905
_VOWELS = "a e i o u ai ea ie o a e".split()  # noqa: SIM905
_CODAS = "l n r s t m rd ck nd ss x lt".split()  # noqa: SIM905
_SYLLABLES = (3, 4)


def decoy_subject(*places: Place) -> Subject:
    """Invent a person at places."""
    return Subject(names=(Name(_word(), _word()),), places=places)


def _word() -> str:
    syllables = [secrets.choice(_ONSETS) + secrets.choice(_VOWELS) for _ in range(secrets.choice(_SYLLABLES))]
    return ("".join(syllables) + secrets.choice(_CODAS)).capitalize()
