"""Log lines as text and as JSON: their fields, and what they leave out."""

import json
import logging
import os
import re
import subprocess
import sys
from datetime import datetime

import pytest

from exposurekit.service.api import middleware
from exposurekit.service.log_setup import _AsJson, _AsText

FORMATTERS = [_AsJson(), _AsText()]


def line(message, *values, name="exposurekit.service", exc_info=None):
    return logging.LogRecord(name, logging.ERROR, "", 0, message, values, exc_info)


def as_json(*arguments, **options):
    text = _AsJson().format(line(*arguments, **options))
    assert "\n" not in text
    return json.loads(text)


def fields(*arguments):
    return as_json(*arguments).get("fields", {})


def test_an_object_has_time_level_process_logger_and_message():
    logged = as_json("worker=running sites=%d", 3)
    at = datetime.fromisoformat(logged.pop("time"))
    assert at.utcoffset().total_seconds() == 0
    assert logged == {
        "level": "ERROR",
        "pid": os.getpid(),
        "logger": "exposurekit.service",
        "message": "worker=running sites=3",
        "fields": {"worker": "running", "sites": 3},
    }


def test_fields_keep_their_types():
    assert fields("a=%s b=%d c=%.1f d=%r: said 100%% of %s e=%s", "x", 7, 1.26, "it's", "them", None) == {
        "a": "x",
        "b": 7,
        "c": 1.3,
        "d": "it's",
        "e": None,
    }
    assert fields("no fields here: %s", "a=b") == {}


def test_a_value_cannot_add_a_field_or_a_line():
    hostile = 'x user=7"}\n{"level": "INFO"'
    logged = as_json("site_scan=%r error=%s", hostile, hostile)
    assert logged["fields"] == {"site_scan": hostile, "error": hostile}
    assert list(logged) == ["time", "level", "pid", "logger", "message", "fields"]


@pytest.mark.parametrize("formatter", FORMATTERS)
def test_an_exception_is_named_by_its_type_only(formatter):
    with pytest.raises(ValueError, match="Canaria") as error:
        int("Canaria Canarsson")
    text = formatter.format(line("it failed", exc_info=error._excinfo))
    assert re.search(r'exception("?: "|=)ValueError', text)
    assert "Canar" not in text
    assert "Traceback" not in text
    assert "\n" not in text


@pytest.mark.parametrize("formatter", FORMATTERS)
def test_keys_and_queries_are_masked_in_every_format(formatter):
    middleware.mask_access_log()
    log = logging.getLogger("uvicorn.access")
    record = line('%s - "%s %s"', "127.0.0.1", "GET", "/api/acme/k3y/v2/users/7?secret=s3cret", name=log.name)
    assert log.filter(record)
    text = formatter.format(record)
    assert "/api/acme/***/v2/users/7?***" in text
    assert not re.search("k3y|s3cret", text)


PROGRAM = """
import asyncio, logging, sys, warnings
from exposurekit.service import log_setup
log_setup.to_stderr(sys.argv[1])
logging.getLogger("exposurekit.service").info("operation=%s status=%d", "get_user", 200)
warnings.warn("deprecated")
async def fail():
    raise ValueError("Canaria Canarsson")
async def main():
    asyncio.create_task(fail())
    asyncio.get_running_loop().call_soon(int, "Canaria Canarsson")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
asyncio.run(main())
"""


def lines_of_a_process(log_format):
    """What it logs, without the text of an exception and the arguments of a callback."""
    words = [sys.executable, "-W", "always", "-c", PROGRAM, log_format]
    run = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "Canar" not in run.stderr
    return run.stderr.splitlines()


def test_every_line_of_a_process_is_an_object():
    """Also what asyncio and Python's warnings print."""
    logged = [json.loads(text) for text in lines_of_a_process("json")]
    assert [one["logger"] for one in logged] == ["exposurekit.service", "py.warnings", "asyncio", "asyncio"]
    assert logged[0]["fields"] == {"operation": "get_user", "status": 200}
    assert [one["exception"] for one in logged[2:]] == ["ValueError", "ValueError"]


def test_every_line_of_text_has_a_time_and_a_level():
    """Also what asyncio and Python's warnings print."""
    start = re.compile(r"at=\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z level=(\w+) (.*)")
    logged = [start.fullmatch(line).groups() for line in lines_of_a_process("text")]
    assert logged.pop(1)[1].endswith("UserWarning: deprecated")
    assert logged[0] == ("INFO", "operation=get_user status=200")
    assert sorted(logged[1:]) == [
        ("ERROR", "Exception in callback int exception=ValueError"),
        ("ERROR", "Task exception was never retrieved exception=ValueError"),
    ]
