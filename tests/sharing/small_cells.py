"""An attacker who solves the sums of a shared page: no count of a hidden site, and no hidden group, may follow.

    python tests/sharing/small_cells.py --pages 200

A page has the tables of its sections that count by site, and the totals of everyone. The attacker knows the names of all
sites. A count is recovered if it is 1 to 4 and the only solution of the equations that the page gives.

Then built reports are read: the tables, figures and texts of all questions, with and without rows of people.
"""

import argparse
import json
import random
import re
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.histories import DAWN, Clock, seen_through
from support.shared_worlds import DAYS, STATUSES, a_world

import exposurekit as ek
from exposurekit import analysis
from exposurekit.analysis.manual_tasks import Task
from exposurekit.history import History
from exposurekit.privacy.pseudonyms import Pseudonyms
from exposurekit.questions import QUESTIONS
from exposurekit.reports.model import Removal
from exposurekit.reports.share_safe import FEW, sharing

NO_ALERTS = pd.DataFrame(columns=["user_id", "site", "guide", "opt_out_procedure"])


def records_of(seed):
    """Listings of up to thirty people on sites of which some have few."""
    rng = random.Random(seed)  # noqa: S311  a simulation
    rows = [
        (user_id, f"Site {number:02}")
        for number in range(rng.randint(3, 14))
        for user_id in rng.sample(range(30), rng.choice((1, 2, 3, 4, 5, 6, 9, 15)))
        for _ in range(rng.choice((1, 1, 1, 2)))
    ]
    table = pd.DataFrame(rows, columns=["user_id", "site"])
    return table.assign(
        status=[rng.choice(STATUSES) for _ in rows],
        label=[rng.choice(("mine", "not mine", None)) for _ in rows],
        first_seen_at=pd.Timestamp(DAWN),
        changed_at=pd.Timestamp(DAWN),
    )


def removals_of(records, seed):
    """How many listings of each site were followed: not all of them."""
    followed = records.sample(frac=0.5, random_state=seed)
    return followed.groupby("site", observed=True).size().rename("n").reset_index()


def determined(sites, cells, sums):
    """The sites whose counts follow from published cells and from sums over sites."""
    columns = {site: number for number, site in enumerate(sites)}
    rows = [np.eye(len(sites))[columns[site]] for site in cells]
    rows += [np.isin(sites, [*group]).astype("float64") for group in sums]
    matrix = np.array(rows) if rows else np.zeros((1, len(sites)))
    rank = np.linalg.matrix_rank(matrix)
    return {
        site
        for site, number in columns.items()
        if np.linalg.matrix_rank(np.vstack([matrix, np.eye(len(sites))[number]])) == rank
    }


def recovered(records, removals, boundary):
    """The hidden counts of one to four that an attacker gets from one page: (site, what)."""
    sites = sorted(records["site"].unique())
    by_site = boundary.table(analysis.by_site(records))
    precision = boundary.table(analysis.precision(records))
    times = boundary.table(removals)
    named = {*by_site["site"]} & {*sites}
    others = {*sites} - named
    labelled = {*precision["site"]} & {*sites}
    counts = pd.crosstab(records["site"], records["status"]).assign(total=lambda table: table.sum(axis=1))
    hidden = set()
    for what in counts:
        # The row of other sites; the sites of the other table have a total each; the totals of everyone.
        cells = named | (labelled if what == "total" else set())
        hidden |= {
            (site, what)
            for site in determined(sites, cells, [others, {*sites}]) - named
            if 0 < counts.loc[site, what] < FEW
        }
    n = removals.set_index("site")["n"]
    visible = {*times["site"]} & {*n.index}
    follows = determined([*n.index], visible, [{*n.index}]) - visible
    small = {site for site in follows if 0 < n[site] < FEW} | {site for site in visible if n[site] < FEW}
    return hidden | {(site, "n") for site in small}


def work_of(records, seed):
    """The manual work of a page: of some people on each site, and of web pages with one or two kinds of steps."""
    rng = random.Random(seed)  # noqa: S311  a simulation
    people = {
        (site, "A"): rng.sample([*users], rng.randint(1, len(users)))
        for site, users in records.groupby("site")["user_id"].agg(set).items()
    }
    kinds = "AB"[: rng.randint(1, 2)]
    people |= {(None, steps): rng.sample(range(30), rng.choice((1, 3, 4, 5, 9))) for steps in kinds}
    return tuple(
        Removal(site, None, (steps,), tuple(Task("user", user_id=one) for one in users), n, n, 2.0 * n)
        for (site, steps), users in people.items()
        for n in [len(users)]
    )


def recovered_work(work, published):
    """The hidden numbers of one to four that follow from the groups of manual work and its two totals."""
    shared = {(one.site, one.steps): one for one in published}
    groups = [(one.site, one.steps) for one in work]
    names = [*map(str, groups)]
    cells = {str(group) for group in groups if group in shared and shared[group].listings is not None}
    sums = [{str(group) for group in groups if (group[0] is None) == is_page} for is_page in (False, True)]
    alone = set().union(*(group for group in sums if len(group) == 1))  # its total is published
    follows = determined(names, cells, sums) - alone
    return {name for name, one in zip(names, work, strict=True) if name in follows and one.people < FEW}


def page(seed):
    """How many counts of one to four a page hides, and how many of them are recovered."""
    records = records_of(seed)
    removals, work = removals_of(records, seed), work_of(records, seed)
    boundary = sharing(Pseudonyms(b"k" * 32), records, NO_ALERTS, has_rows=False)
    texts = frozenset((one.site, None, one.steps) for one in work if one.people >= FEW or one.site is None)
    boundary = replace(boundary, texts=texts)
    published = boundary.removals(work, None)
    return Counter(
        pages=1,
        with_hidden=int((~records["site"].isin(boundary.sites)).any()),
        with_hidden_work=int(any(one.listings is None for one in published)),
        recovered=len(recovered(records, removals, boundary)),
        recovered_work=len(recovered_work(work, published)),
    )


FEW_PEOPLE = re.compile(r"(?<![\d,.])[1-4] (?:person|people)\b")
AN_ID = re.compile(r"\buser \d+\b")
PEOPLE_OF = {"by_state": "state", "by_kind": "kind"}  # tables with a number of people: their groups


def reports_of(history, exposure):
    """Shared reports with and without rows of people: of all questions with changes, and the figures of everyone."""
    for rows in (False, True):
        options = {"exposure": exposure, "share_safe": True, "rows": rows}
        yield rows, ek.report(history, sections=[*QUESTIONS], since=DAWN + timedelta(days=1), **options)
        yield rows, ek.report(history, sections=["work_queue", "coverage"], **options)


def read_off(report, unnamed, everyone, *, has_rows):
    """What a report states outright: a site that it may not name, an id, or a group of few people, but not of all."""

    def few(text):
        return [one for one in FEW_PEOPLE.findall(text) if int(one[0]) != everyone]

    facts = json.dumps([report.finding, [[fact.value, fact.qualifier, fact.detail] for fact in report.facts]])
    yield from (("facts", text) for text in few(facts))
    for section in report.sections:
        table, key = section.table, section.key
        chart = "" if section.figure is None else section.figure.to_json()
        texts = json.dumps([section.finding, section.text, chart], ensure_ascii=False)
        cells = ""
        if table is not None:
            cells = table.to_json(date_format="iso") + json.dumps([*map(str, table.columns)])
            columns = {"people", "at_risk"} & {*table} if key != "work_queue" else ()
            yield from (
                (key, n) for name in columns for n in table[name].dropna() if 0 < n < FEW and n != everyone
            )
        yield from ((key, site) for site in unnamed if site in texts + cells)
        yield from ((key, text) for text in AN_ID.findall(texts))
        if not has_rows:  # beside rows of people, it may state that two have the most
            yield from ((key, text) for text in few(texts))


def subtracted(report, truth):
    """The hidden rows that follow from a total: one alone, or all of them, if they are of few people or listings."""
    for key, table in truth.items():
        section = next((one for one in report.sections if one.key == key), None)
        if section is None or table.empty:
            continue
        group, n = (PEOPLE_OF[key], "people") if key in PEOPLE_OF else ("site", "n")
        visible = set() if section.table is None else {*section.table[group]}
        hidden = table[~table[group].astype("str").isin(visible) & (table[n] > 0)]
        if visible and len(hidden) and (len(hidden) == 1 or hidden[n].sum() < FEW):
            yield key, (*hidden[group],)


def built(seed):
    """What follows from the shared reports of an invented service, of 3 to 14 people."""
    world = a_world(seed)
    n = 3 + seed % 12
    world.people = {number: person for number, person in world.people.items() if number <= n}
    clock = Clock()
    with (
        tempfile.TemporaryDirectory() as directory,
        seen_through(world) as exposure,
        History(Path(directory) / "history", clock=clock) as history,
    ):
        for day in range(DAYS):
            for number, person in world.people.items():
                person.scanning = number == day  # not loaded completely
                person.records[0] |= {"status": STATUSES[(day + number) % len(STATUSES)]}
            clock.set(DAWN + timedelta(days=day))
            history.collect(exposure.refresh(), progress=False)
        records = history.records()
        people = records.groupby("site", observed=True)["user_id"].nunique()
        unnamed = {*people.index[people < FEW].astype("str")}
        truth = {key: QUESTIONS[key].ask(history) for key in (*PEOPLE_OF, "time_to_removal")}
        return [
            (seed, has_rows, *what)
            for has_rows, report in reports_of(history, exposure)
            for what in (*read_off(report, unnamed, n, has_rows=has_rows), *subtracted(report, truth))
        ]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", type=int, default=200)
    options = parser.parse_args()
    totals = sum(map(page, range(options.pages)), Counter())
    n = totals["recovered"] + totals["recovered_work"]
    print(f"{totals['pages']} pages, {totals['with_hidden']} with hidden sites: {n} recovered")  # noqa: T201
    followed = [what for seed in range(options.pages) for what in built(seed)]
    print(f"reports of {options.pages} services: {len(followed)} recovered", *followed[:20], sep="\n")  # noqa: T201
    return 1 if n or followed else 0


if __name__ == "__main__":
    sys.exit(main())
