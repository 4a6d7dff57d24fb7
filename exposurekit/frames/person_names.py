"""The names of people: labels, the names that listings show, and who matches a typed text."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

import numpy as np
import pandas as pd

from exposurekit.errors import InvalidArgument, NotFound
from exposurekit.text.formatting import enumerate_words
from exposurekit.text.sanitize import plain
from exposurekit.text.words import GENERATIONS, fold_case, without_apostrophes

_ALIKE = 0.8  # of two names that may be one, as of `SequenceMatcher`
_NAMES_MAX = 5  # names in one line; more people are counted
COMPLETIONS_MAX = 500  # with more people, the completions follow what is typed
_WORDS_MAX = 8  # of a name whose middle names may be left out
_HYPHEN = re.compile(r"(?<=[^\W\d_])-(?=[^\W\d_])")
_LAST_NAME_FIRST = re.compile(  # but not "Ann Lee, MD"
    rf"^([^,]+),(?!\s*(?:{'|'.join(GENERATIONS)}|md|m\.d|phd|ph\.d|esq)\.?$)\s*([^,]+)$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class People:
    """The people of an exposure or a history: by id their labels, as of `labels_of`, and their other names."""

    labels: Mapping[int, str] = field(repr=False)
    aliases: Mapping[int, Sequence[str]] = field(default_factory=dict, repr=False)

    def matching(self, text: str) -> list[int]:
        """The ids of the people with this id or full name; else with this name or alias; else whose name contains it.

        A name without its middle names is a name of that person, too, and so is one with the last name first: "Lee, Ann".
        """
        key = _folded(text)
        if not any(map(str.isalpha, key)):
            return [one for one in self.labels if str(one) == text.strip()]
        first_name_first = _LAST_NAME_FIRST.sub(r"\2 \1", text.strip())
        return self._named(key) or self._named(_folded(first_name_first))

    def _named(self, key: str) -> list[int]:
        names = {one: self._names(one) for one in self.labels}
        return (
            [one for one, (label, full, *_) in names.items() if key in (label, full)]
            or [one for one, each in names.items() if key in each]
            or [one for one, each in names.items() if any(key in name for name in each)]
        )

    def _names(self, user_id: int) -> list[str]:
        label = _folded(self.labels[user_id])
        full = label.removesuffix(_suffix(user_id))
        return [label, full, *_without_middle(full), *map(_folded, self.aliases.get(user_id, ()))]

    def unique_match(self, text: str) -> tuple[int, ...]:
        """Return the only person who matches a text; empty if the text is empty, or none or several match."""
        matches = self.matching(text) if text.strip() else []
        return tuple(matches) if len(matches) == 1 else ()

    def ids(self, people: int | str | Sequence[int | str] | None) -> tuple[int, ...]:
        """The distinct ids of people given by id or name, each of which is one person's."""
        each = () if people is None else (people,) if isinstance(people, int | str) else people
        return tuple(dict.fromkeys(self._id(person) for person in each))

    def all_ids(self, people: int | str | Sequence[int | str]) -> tuple[int, ...]:
        """The distinct ids of all people who match any of these ids and names."""
        each = (people,) if isinstance(people, int | str) else people
        return tuple(dict.fromkeys(one for person in each for one in self._matches(person)))

    def _id(self, person: int | str) -> int:
        matches = self._matches(person)
        if len(matches) > 1:
            ids = ", ".join(map(str, sorted(matches)[:_NAMES_MAX])) + (", ..." * (len(matches) > _NAMES_MAX))
            raise InvalidArgument(
                f"{len(matches):,} people match this name: give the id, one of {ids}; exposure.users(name) lists them"
            )
        return matches[0]

    def _matches(self, person: int | str) -> list[int]:
        if matches := self.matching(str(person)):
            return matches
        near = self._nearest(str(person))
        raise NotFound(f"Nobody has this id or name{near}: exposure.users() lists everyone")

    def _nearest(self, text: str) -> str:
        """Whose name a text resembles most, for an error; by id, as errors hold no names."""
        by_word: dict[str, set[int]] = {}
        for one in self.labels:
            for name in self._names(one):
                for word in (name, *name.split()):
                    by_word.setdefault(word, set()).add(one)
        nearest = get_close_matches(_folded(text), by_word, n=1, cutoff=_ALIKE)
        ids = sorted(by_word[nearest[0]]) if nearest else []
        if not 0 < len(ids) <= _NAMES_MAX:
            return ""
        return f" (did you mean user {enumerate_words([*map(str, ids)], 'or')}?)"

    def names(self, ids: Sequence[int]) -> str:
        """The labels of people on one line; of many, the first few and a count."""
        labels = [self.labels.get(one, str(one)) for one in ids]
        more = f" and {len(labels) - _NAMES_MAX:,} more" if len(labels) > _NAMES_MAX else ""
        return ", ".join(labels[:_NAMES_MAX]) + more

    def distinct_names(self, ids: Sequence[int]) -> list[str]:
        """The name of each of these people; the label where several of them have that name."""
        names = {one: self.labels.get(one, str(one)).removesuffix(_suffix(one)) for one in ids}
        counts = Counter(names.values())
        return [name if counts[name] == 1 else self.labels[one] for one, name in names.items()]

    def completions(self, text: str) -> list[str]:
        """Labels for the browser to offer: all if they are few, else the first that match the text."""
        labels = list(self.labels.values())
        if len(labels) > COMPLETIONS_MAX and text.strip():
            key = _folded(text)
            labels = [label for label in labels if key in _folded(label)]
        return labels[:COMPLETIONS_MAX]


def labels_of(users: pd.DataFrame) -> dict[int, str]:
    """The label of each user of `Exposure.users`: the full name, as `Exposure.with_people` has it, and the id, such as ``Ann Lee (user 7)``."""
    names = _joined(users, ("first_name", "middle_name", "last_name"))
    return {user_id: f"{name}{_suffix(user_id)}" if name else str(user_id) for user_id, name in names}


def aliases_of(aliases: pd.DataFrame) -> dict[int, list[str]]:
    """The names of each user in `Exposure.aliases`."""
    names: dict[int, list[str]] = {}
    for user_id, name in _joined(aliases, ("first_name", "last_name")):
        if name:
            names.setdefault(user_id, []).append(name)
    return names


def listed_names(records: pd.DataFrame) -> dict[int, str]:
    """The name that most listings of each person show, first name first; on a tie, the first in alphabetical order.

    A name in capitals only if no listing of the person has another: its last name may come first, and it reads badly.
    """
    of_row, distinct = pd.factorize(records["name"])
    stripped = (
        pd.Series(distinct, dtype="str").str.strip().str.replace(_LAST_NAME_FIRST, r"\2 \1", regex=True)
    )
    of_distinct, names = pd.factorize(stripped.where(stripped != ""), sort=True)
    rows = pd.DataFrame({"user_id": records["user_id"], "name": np.append(of_distinct, -1)[of_row]})
    counts = rows[rows["name"] >= 0].value_counts(sort=False).reset_index()
    counts["is_capitals"] = pd.Series(names, dtype="str").str.isupper().to_numpy("bool")[counts["name"]]
    order = ["is_capitals", "count", "name"]
    most_first = counts.sort_values(order, ascending=[True, False, True], kind="stable")
    first = most_first.drop_duplicates("user_id")
    return dict(zip(first["user_id"].tolist(), names[first["name"]].tolist(), strict=True))


def _suffix(user_id: int) -> str:
    return f" (user {user_id})"


def _joined(table: pd.DataFrame, columns: Sequence[str]) -> Iterable[tuple[int, str]]:
    for user_id, *parts in zip(*(table[name].tolist() for name in ("user_id", *columns)), strict=True):
        texts = (plain(part).strip() for part in parts if isinstance(part, str) and part.strip())
        yield user_id, " ".join(texts)


def _without_middle(name: str) -> list[str]:
    """The name without each run of words in its middle: a first or last name may be of several words."""
    words = name.split()
    if len(words) > _WORDS_MAX:
        return []
    ends = range(1, len(words))
    return [" ".join(words[:start] + words[end:]) for start in ends for end in ends if start < end]


def _folded(text: str) -> str:
    """The text in lower case, without accents, apostrophes, hyphens, control characters and repeated spaces."""
    return " ".join(_HYPHEN.sub(" ", without_apostrophes(fold_case(plain(text)))).split())
