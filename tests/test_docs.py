"""The examples of docstrings, run on a demo."""

import asyncio
import doctest
import importlib
import inspect
import pkgutil

import numpy as np
import pandas as pd
import pytest

import exposurekit as ek

MODULES = [
    "exposurekit",
    *(
        item.name
        for item in pkgutil.walk_packages(ek.__path__, "exposurekit.")
        if "world" not in item.name and "migrations." not in item.name and not item.name.endswith("__main__")
    ),
]


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


@pytest.mark.parametrize(("name", "value"), [pytest.param(*item, id=item[0]) for item in public()])
def test_a_public_name_has_an_example(name, value):
    text = inspect.getdoc(value) or ""
    assert text, f"{name} has no docstring"
    plain = inspect.isclass(value) and issubclass(value, Exception)
    assert ">>>" in text or plain or name in {"Client.close", "AsyncClient.aclose", "History.close"}, (
        f"{name} has no example"
    )
