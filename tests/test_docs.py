"""The examples of docstrings, run on a demo."""

import asyncio
import doctest
import importlib
import inspect
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support import ticked

import exposurekit as ek

ROOT = Path(ek.__file__).parent
FILES = {
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
    if path.stem != "__main__" and path.parent.name != "versions"
}
MODULES = [name for name, path in FILES.items() if ">>>" in path.read_text()]


def test_every_module_can_be_imported():
    for name in FILES:
        importlib.import_module(name)


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """Names that the examples use: a demo with one more person, and a history of one run."""
    with ek.demo(people=7, days=2) as demo:
        user = demo.client.create_user(
            first_name="Juniper", last_name="Quillfeather", addresses=[{"city": "Oakmere", "state": "CA"}]
        )
        demo.client.wait_for_scan(user)
        exposure = ek.connect(client=demo.client)
        history = ek.History(tmp_path_factory.mktemp("docs") / "history")
        history.collect(exposure)
        # Of someone whose first alert is about a listing.
        alerts = exposure.alerts().groupby("user_id").head(1)
        key = exposure.key(int(alerts[alerts["source_type"] == "record"]["user_id"].iloc[0]))

        def awaited(call):
            async def once():
                async with ek.AsyncClient(**demo.connection) as client:
                    return await call(client)

            return asyncio.run(once())

        yield {name: getattr(ek, name) for name in ("analysis", "charts", "frames", "sanitize")} | {
            "awaited": awaited,
            "demo": demo,
            "ek": ek,
            "asyncio": asyncio,
            "np": np,
            "pd": pd,
            "user": user,
            "key": key,
            "client": demo.client,
            "connection": demo.connection,
            "exposure": exposure,
            "history": history,
            "report": ek.report(exposure),
        }


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name, names, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # some write files
    if name == "exposurekit.history.annotations":
        [item, *_] = ticked.items(names["report"].to_html())
        (tmp_path / "ticks.json").write_text(ticked.ticks_file([item]))
    module = importlib.import_module(name)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    runner = doctest.DocTestRunner(optionflags=flags)
    report = []
    for test in doctest.DocTestFinder().find(module, extraglobs=dict(names)):
        runner.run(test, out=report.append)
    assert runner.failures == 0, "".join(report)


def public():
    for name in dir(ek):
        value = getattr(ek, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            yield name, value
    owners = (ek.Client, ek.AsyncClient, ek.Exposure, *ek.History.__mro__[:-1])
    for owner in owners:
        for name, value in vars(owner).items():
            if not name.startswith("_") and inspect.isfunction(value):
                yield f"{owner.__name__}.{name}", value
    for module in (ek.analysis, ek.charts, ek.frames, ek.sanitize):
        for name, value in vars(module).items():
            if inspect.isfunction(value) and value.__module__.startswith(module.__name__) and name[0] != "_":
                yield f"{module.__name__}.{name}", value


def test_every_public_name_has_an_example():
    documented = {name: inspect.getdoc(value) or "" for name, value in public()}
    assert len(documented) > 200
    assert [name for name, text in documented.items() if not text] == []
    errors = {name for name, value in public() if inspect.isclass(value) and issubclass(value, Exception)}
    without = {name for name, text in documented.items() if ">>>" not in text} - errors
    assert without == {"Client.close", "AsyncClient.aclose", "History.close"}
