"""What an analyst says of findings and steps: labels, ticks and notes, beside what was observed. Changes none of that."""

from contextlib import suppress
from datetime import datetime, timedelta

import pandas as pd

from exposurekit.errors import InvalidArgument, NotFound
from exposurekit.history import annotations, queries
from exposurekit.history.conversion import frame
from exposurekit.history.reader import Reading
from exposurekit.history.storage.location import resolve


class Marking(Reading):
    """A history that somebody writes in the margin of."""

    _newest_mark: datetime | None = None

    def label(self, record: annotations.Rows, label: str, *, reason: str = "") -> int:
        """Say whether a finding is about the person: ``mine``, ``not mine`` or ``unsure``; the newest counts.

        Args:
            record: A row of `records`, `links` or `alerts`, or several as a table.
            label: One of the three.
            reason: Why, in your words.

        Returns:
            How many were labelled.

        Raises:
            InvalidArgument: The label is none of the three, the reason is no text, or the row does not tell what it is.

        >>> history.label(history.records().iloc[0], "not mine", reason="another birth year")
        1
        """
        return self._mark(
            record,
            annotations.LABEL,
            annotations.check_annotation(label, annotations.LABELS, "label"),
            annotations.text_values(reason, "reason"),
        )

    def tick(self, step: annotations.Rows, state: str = "done", *, note: str = "") -> int:
        """Say how far a step of a manual removal is: ``done``, ``unable`` or ``open``; the newest counts.

        Args:
            step: A row of `Exposure.steps`, or several as a table.
            state: One of the three.
            note: What there is to say.

        Returns:
            How many were ticked.

        Raises:
            InvalidArgument: The state is none of the three, the note is no text, or the row is no step.

        >>> history.tick(exposure.steps().head(2))
        2
        """
        return self._mark(
            step,
            annotations.TICK,
            annotations.check_annotation(state, annotations.TICKS, "tick"),
            annotations.text_values(note, "note"),
        )

    def note(self, thing: annotations.Rows, text: str) -> int:
        """Write a note beside a record, link, alert or step. All notes are kept.

        Raises:
            InvalidArgument: The note is no text, or says nothing; or the row does not tell what it is.

        >>> history.note(history.records().iloc[0], "asked them by letter")
        1
        """
        if not annotations.text_values(text, "note").strip():
            raise InvalidArgument("A note says something: give a text")
        return self._mark(thing, annotations.NOTE, None, text)

    def labels(self) -> pd.DataFrame:
        """The newest label of each thing: ``user_id``, ``kind``, ``key``, ``value``, ``note``, ``marked_at``.

        >>> history.labels()["value"].tolist()
        ['not mine']
        """
        return self._marked(annotations.LABEL, newest=True)

    def ticks(self) -> pd.DataFrame:
        """The newest tick of each step: ``user_id``, ``key``, ``step``, ``value``, ``note``, ``marked_at``.

        >>> history.ticks()["value"].tolist()
        ['done', 'done']
        """
        return self._marked(annotations.TICK, newest=True)

    def notes(self) -> pd.DataFrame:
        """Every note, oldest first: ``user_id``, ``kind``, ``key``, ``note``, ``marked_at``.

        >>> history.notes()["note"].tolist()
        ['asked them by letter']
        """
        return self._marked(annotations.NOTE, newest=False)

    def _mark(self, thing: annotations.Rows, mark: str, value: str | None, note: str) -> int:
        places = [annotations.key_columns(row, self._records_by) for row in annotations.rows(thing)]
        if places:
            at = self._after_every_mark()
            made = annotations.table(places, mark=mark, value=value, note=note, at=at)
            with resolve():
                self._store.append("marks", made)
            self._newest_mark = at
        return len(places)

    def _after_every_mark(self) -> datetime:
        """Now, or just after the newest mark: the newest counts, also where the clock stands still or was set back."""
        if self._newest_mark is None:
            with suppress(NotFound):  # the first mark may begin the history
                made = frame(self._ask(queries.MARKS, ("marks",)))["marked_at"]
                self._newest_mark = None if made.empty else made.max().to_pydatetime()
        now = self._clock()
        return now if self._newest_mark is None else max(now, self._newest_mark + timedelta(microseconds=1))

    def _marked(self, mark: str, *, newest: bool) -> pd.DataFrame:
        found = frame(self._ask(queries.MARKS, ("marks",)))
        of = found[found["mark"] == mark]
        kept = of.drop_duplicates(["user_id", "kind", "key"], keep="last") if newest else of
        return kept.drop(columns="mark").reset_index(drop=True)
