"""A person who does not exist, for asking whether a site lists anybody who is asked for. A new one each time."""

import secrets

from exposurekit.service.accounts.subject import Name, Place, Subject

# Built of common syllables, so that no pattern tells them from rare names; long, so that nobody bears both.
_ONSETS = [
    "b",
    "br",
    "c",
    "ch",
    "d",
    "dr",
    "f",
    "g",
    "gr",
    "h",
    "j",
    "k",
    "l",
    "m",
    "n",
    "p",
    "pr",
    "qu",
    "r",
    "s",
    "sh",
    "st",
    "t",
    "th",
    "tr",
    "v",
    "w",
    "z",
]
_VOWELS = ["a", "e", "i", "o", "u", "ai", "ea", "ie", "o", "a", "e"]
_CODAS = ["l", "n", "r", "s", "t", "m", "rd", "ck", "nd", "ss", "x", "lt"]
_SYLLABLES = (3, 4)


def decoy_subject(place: Place) -> Subject:
    """Somebody of that place whom nobody lists.

    >>> subject = decoy_subject(Place(city="Oakmere", state="CA"))
    >>> len(subject.names), subject.places[0].city
    (1, 'Oakmere')
    """
    return Subject(names=(Name(_word(), _word()),), places=(place,))


def _word() -> str:
    syllables = [secrets.choice(_ONSETS) + secrets.choice(_VOWELS) for _ in range(secrets.choice(_SYLLABLES))]
    return ("".join(syllables) + secrets.choice(_CODAS)).capitalize()
