"""Before a manual removal: what to check, and what it needs from the person."""

import re
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import dropwhile

from exposurekit.text.words import GENERATIONS, TITLES, without_generation, words

MAILBOX = "The confirmation goes to the person's own mailbox: tell them before you begin."
DOCUMENT = "You need a copy of a bill or another document from the person."
NEEDS_DOCUMENT = "it needs a copy of a document from the person"  # why a removal comes later
_FIRST = {  # what to do about each with these people, before the first step
    MAILBOX: "tell {} to expect an email and click the link in it",
    DOCUMENT: "ask {} for a copy of a bill or another document",
}
NAME_DIFFERS = "differs: name"  # begins the warning of `name_warning`
_CHECK = "; check that this is the right person first"
_CODE = re.compile(r"(?i)<\s*[/!?]?\s*[a-z]|javascript:|&#")
_MAILED = re.compile(  # a message to open, or a link or code in it; not an address to enter
    r"(?i)\b(?:open|confirm|await|wait for|answer|reply to)\s+(?:\w+\s+){0,3}e-?mail\b(?!\s+address)"
    r"|\be-?mail\b[^.]*\b(?:link|code)\b|\b(?:link|code)\b[^.]*\be-?mail"
)
_COPIED = re.compile(
    r"(?i)(?=.*\b(?:copy|copies|scan|photo|photograph|picture|enclose|attach|upload)\b)"
    r".*\b(?:bill|passport|licen[cs]e|identification|identity|id card|document|statement)\b"
)


def preparations(steps: Sequence[str]) -> tuple[str, ...]:
    """Say what the steps of a removal need from the person: a mailbox to read, a document to copy.

    A step that mentions a message to open, or a link or code in one, needs the mailbox; one that mentions a copy of a
    bill or an identification needs the document.
    """
    needs = {MAILBOX: _MAILED, DOCUMENT: _COPIED}
    return tuple(text for text, pattern in needs.items() if any(map(pattern.search, steps)))


def worded_steps(steps: Sequence[str]) -> tuple[str, ...]:
    """The steps, with the person named before those that only the person can do: to read a message.

    >>> from exposurekit.analysis.step_requirements import worded_steps
    >>> worded_steps(["Send the form.", "Open the email and click the link in it."])
    ('Send the form.', 'The person: Open the email and click the link in it.')
    """
    return tuple(f"The person: {step}" if _MAILED.search(step) else step for step in steps)


def document_request(people: str) -> str:
    """Say what to ask of people whose removal needs a document."""
    return _FIRST[DOCUMENT].format(people)


def requests_to_people(steps: Sequence[str], people: str) -> tuple[str, ...]:
    """Say what to ask of people before a removal.

    >>> from exposurekit.analysis.step_requirements import requests_to_people
    >>> requests_to_people(["Enclose a copy of a bill."], "10 people")
    ('ask 10 people for a copy of a bill or another document',)
    """
    return tuple(_FIRST[need].format(people) for need in preparations(steps))


def page_warnings(title: str) -> Iterator[str]:
    """Warn of a web page whose title contains code."""
    if _CODE.search(title):
        yield "Suspicious page: its title contains program code."


def age_warning(age: int | None, birth_date: str | None, as_of: date | None) -> Iterator[str]:
    """Warn if the listed age differs from the birth date on file by more than a year: sites know the year, not the day."""
    if age is None or birth_date is None or as_of is None:
        return
    born = date.fromisoformat(birth_date)
    on_file = as_of.year - born.year - ((as_of.month, as_of.day) < (born.month, born.day))
    if abs(age - on_file) > 1:
        yield f"differs: age {age}, on file {on_file}{_CHECK}"


def name_warning(listed: str | None, names: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Warn if a listed name differs from all names on file: the full name, then the aliases, each as first and last name."""
    if listed is None or not names:
        return
    if not any(is_named(listed, first, last) for first, last in names):
        yield f"{NAME_DIFFERS} {listed}, on file {' '.join(filter(None, names[0]))}{_CHECK}"


def is_named(listed: str, first: str, last: str) -> bool:
    """Return whether a listed name has a first and a last name on file.

    Order, case, accents, middle names and titles before the first name make no difference. An initial stands for a first
    name only where it comes first: in ``FENNIMOOR ODA O`` it is that of a middle name. Jr. and Sr. are different people;
    where only one of the names states it, it makes no difference.
    """
    parts, family = words(listed), without_generation(last)
    listed_generations = {GENERATIONS[part] for part in parts[1:] if part in GENERATIONS}
    generations = {GENERATIONS[part] for part in words(last[len(family) :])}
    if generations and listed_generations and generations.isdisjoint(listed_generations):
        return False
    return _names(parts, *_split(first, family))


def _split(first: str, last: str) -> tuple[Sequence[str], Sequence[str]]:
    """The words of a first and a last name; a whole name, such as an alias, begins with the first."""
    first_words, last_words = words(first)[:1], words(last)
    is_whole = not first_words and len(last_words) > 1
    return (last_words[:1], last_words[1:]) if is_whole else (first_words, last_words)


def _names(parts: Sequence[str], first: Sequence[str], last: Sequence[str]) -> bool:
    """Whether the parts of a listed name contain a last name, and a first name, or their initials."""
    rest = [*parts]
    for word in last:
        part = word if word in rest else word[0]
        if part not in rest:
            return False
        rest.remove(part)
    rest = [*dropwhile(TITLES.__contains__, rest)]  # only now: a last name may be one
    return all(word in parts or rest[:1] == [word[0]] for word in first)
