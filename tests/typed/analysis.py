"""An analyst's code, which type checkers read with every check on; `reveal_type` prints what they infer."""

import asyncio
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import reveal_type

import pandas as pd

import exposurekit as ek

reveal_type(ek.connect().records())  # DataFrame

with ek.demo(people=10, seed=7, days=14) as demo:
    reveal_type(demo.exposure)  # Exposure
    reveal_type(demo.history)  # History
    reveal_type(demo.client)  # Client
    reveal_type(demo.agreement_by_day())  # DataFrame
    demo.advance(days=3)

exposure: ek.Exposure = ek.connect(
    "https://service.example", integration_name="acme", api_key="key", timeout=10, concurrency=4
)
records = exposure.records(user=[1, 2], site="Nosy Heron", status=["discovered", "pending removal"])
links = exposure.links(contains="email")
alerts = exposure.alerts(source_type="record")
steps = exposure.steps(12, status="discovered")
people = exposure["users"]
reveal_type(people)  # DataFrame
reveal_type(exposure.failures())  # DataFrame
reveal_type(exposure.as_of)  # datetime
reveal_type(exposure.key(12).id)  # int

table = ek.analysis.by_site(records)
worst = table.head(3)["site"].tolist()
print(worst, len(records), records["user_id"].nunique())
chart = ek.charts.by_site(table, provenance=exposure.provenance)
reveal_type(chart)  # Chart
reveal_type(ek.charts.describe(chart))  # str
reveal_type(ek.analysis.blockers(records, exposure.on_file()))  # DataFrame
reveal_type(ek.analysis.score(records, links, weights={"page": 5}))  # DataFrame

history = ek.History(Path("exposure-history"))
run = history.collect(exposure)
reveal_type(run)  # Run
reveal_type(run.finished_at)  # datetime | None
reveal_type(history.records(as_of="2026-11-13"))  # DataFrame
reveal_type(history.status_over_time(by="site", every="week"))  # DataFrame
diff = history.diff(date(2026, 11, 13), datetime.now(UTC) - timedelta(days=1))
reveal_type(diff)  # Diff
reveal_type(diff.why)  # DataFrame
reveal_type(history["work_queue"])  # DataFrame
reveal_type(history.work_queue(exposure=exposure))  # DataFrame
reveal_type(history.steps(exposure=exposure))  # DataFrame
history.label(history.records().iloc[0], "not mine", reason="another birth year")
history.tick(steps.head(1), "done")
history.note({"user_id": 12, "record_id": 7}, "wrote to them")
reveal_type(history.erase(12))  # int

report = ek.report(history, "week.html", since="2026-11-13", exposure=exposure)
reveal_type(report)  # Report
facts = {fact.name: fact.value for fact in report.facts}
reveal_type(report.finding)  # str
reveal_type(ek.export(records, "records.csv"))  # Path

ek.widgets.Dashboard(exposure, history)
ek.widgets.OptOutChecklist(alerts, history)
reveal_type(ek.widgets.Explorer(records).frame)  # DataFrame

try:
    with ek.Client(retries=ek.RetryPolicy(5)) as client:
        user = client.create_user(
            first_name="Juniper",
            last_name="Quillfeather",
            addresses=[{"city": "Oakmere", "state": "CA"}],
            birth_date="1961-04-12",
        )
        reveal_type(user)  # User
        reveal_type(client.get_user_alerts(user.key))  # list[Alert]
        reveal_type(client.list_user_records((12, "secret")))  # list[Record]
        reveal_type(client.probe())  # DataFrame
except ek.Unauthorized as error:
    reveal_type(error.status)  # int


async def tasks(key: ek.UserKey) -> int:
    client = ek.AsyncClient()
    task = asyncio.create_task(client.get_user(key))
    async with asyncio.TaskGroup() as group:
        page = group.create_task(client.list_users())
    reveal_type(await task)  # User
    return len(page.result().users)


async def names() -> list[str]:
    async with ek.AsyncClient(format="xml", connections=4) as client:
        page = await client.list_users(limit=10)
        users = [await client.get_user(key) for key in page.users]
    return [user.first_name or "" for user in users]


print(asyncio.run(names()), pd.concat([people, people]).shape)
