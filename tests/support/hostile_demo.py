"""A demo for notebooks whose service returns hostile text everywhere, over real HTTP, with a month of history."""

import atexit
from contextlib import ExitStack
from datetime import UTC, timedelta
from pathlib import Path

import pandas as pd
from support.histories import DAWN, Clock, Person, Service, a_link, a_record, an_alert, seen_through
from support.hostile_texts import PAYLOADS

from exposurekit.history import History

PEOPLE, DAYS = 5, 40


def of_text(number, payload):
    """A listing, a page and two alerts with this text everywhere."""
    record = a_record(
        number,
        site=payload,
        name=payload,
        href=payload,
        relations=[payload],
        aliases=[payload],
        locations=[payload],
        status=payload if number % 3 else "discovered",
        user_fields_required_for_removal=[payload],
    ) | {"reference_id": payload}
    link = a_link(payload, payload) | {"contains": [payload]}
    alerts = [
        an_alert(payload, source)
        | {"html": payload, "url": payload, "guide": payload, "opt_out_procedure": [payload, payload]}
        for source in (record, link)
    ]
    return record, link, alerts


def hostile(number, payload):
    record, link, alerts = of_text(number, payload)
    return Person([record], [link], alerts)


class HostileDemo:
    """The part of a demo that notebooks use; its history continues that of the directory, if there is one."""

    integrator = "as the service sent it"

    def __init__(self, directory):
        self._running, self._clock, self._service = ExitStack(), Clock(), Service()
        self._at = DAWN
        for number, text in enumerate(PAYLOADS, 1):
            record, link, alerts = of_text(number, text)
            person = self._service.people.setdefault(number % PEOPLE + 1, Person())
            person.records.append(record)
            person.links.append(link)
            person.alerts += alerts
        self.exposure = self._running.enter_context(seen_through(self._service))
        path = Path(directory) / "history"
        is_there = path.exists()
        self.history = self._running.enter_context(History(path, clock=self._clock))
        if is_there:
            self._at = self.history.last_collected_at().astimezone(UTC)
            self._clock.set(self._at)
        else:
            self._remember()
        atexit.register(self.close)

    def _remember(self):
        """Many equal days, every other one with a run, and a listing that is removed and relisted."""
        [first, *_] = self._service.people[1].records
        for status, days in ((first["status"], DAYS), ("removed", 2), ("discovered", 2)):
            first["status"] = status
            self.advance(days, every=2)

    def advance(self, days, *, every=1, progress=False):
        for _ in range(0, days, every):
            self._at += timedelta(days=every)
            self._clock.set(self._at)
            self.history.collect(self.exposure, progress=progress)
        self.exposure.refresh()

    def agreement_by_day(self):
        columns = ("open", "listed", "removed", "gone", "late", "wrong")
        return pd.DataFrame({name: [0] for name in columns})

    def close(self):
        self._running.close()


def demo(**_):
    """Replaces `ek.demo`, in the directory of the notebook."""
    return HostileDemo(Path.cwd())
