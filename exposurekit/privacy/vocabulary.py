"""The words that tell nothing of anybody: those of the package's own texts, and of opt-out instructions."""

import re
from functools import cache
from importlib.resources import files

_SOURCES = ("analysis", "charts", "contract", "reports", "reports/templates")  # they make the texts of a page
_INSTRUCTIONS = """
a able about account accept add after again agree ahead all also an and any apply are article as ask at back background
be before begin below best book box browser button by call can cancel captcha check choose choice click close code come
complete confirm contact continue copy could customer data date day days delete detail details did directory do does done
down download each edit else email enter error every explain fill fill find finder first follow for form found free from
full get give go guide has have help her here him his hour how i id identity if in info information instruct into is it item
just keep know last later leave left let letter like link list listed listing listings locate log login lookup made mail make
many may me menu message might minute more most must my name need never new next no none not note now number of off ok on once
one only open opt option or order other our out own page pages paste people person personal phone photo please policy post
press print privacy process profile profiles provide public pull put quick reach read ready receive record records
registry reject remove removal removals reply report request result results right same save say scan screen scroll search see
select send set she should show sign site so some start state status step stop submit support switch take tap tell than that
the their them then there these they this those three through ticket time to top true type two under until up upload url us
use user verify version very view visit wait want wants was way we web website week well what when where which white who
will with within word words work write wrong yellow yes yet you your
january february march april june july august september october november december jan feb mar apr jun jul aug sep oct nov dec
monday tuesday wednesday thursday friday saturday sunday
"""


@cache
def common_words() -> frozenset[str]:
    """The common words, in lower case.

    >>> from exposurekit.privacy.vocabulary import common_words
    >>> {"open", "listing", "removal"} <= common_words(), "quill" in common_words()
    (True, False)
    """
    texts = [_INSTRUCTIONS]
    for source in _SOURCES:
        directory = files("exposurekit").joinpath(source)
        texts += [
            file.read_text("utf-8") for file in directory.iterdir() if file.name.endswith((".py", ".html"))
        ]
    # What is written with a capital only may be a name of an example.
    return frozenset(re.findall(r"(?<![^\W_])[a-z]+(?![^\W_])", " ".join(texts)))


def is_common(word: str) -> bool:
    """Whether a word is common: in the vocabulary, a single letter of Latin, or a number of up to four digits.

    >>> from exposurekit.privacy.vocabulary import is_common
    >>> is_common("forms"), is_common("a"), is_common("2026"), is_common("fennimoor")
    (True, True, True, False)
    """
    if word in common_words() or (word.endswith("s") and word[:-1] in common_words()):
        return True
    return (len(word) == 1 and word.isascii()) or (word.isdecimal() and len(word) <= 4)  # noqa: PLR2004  a year
