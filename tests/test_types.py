"""The types of what an analyst types: mypy and pyright read programs that use the public names, right and wrong."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

TYPED = Path(__file__).parent / "typed"
PROGRAM, MISTAKES = TYPED / "analysis.py", TYPED / "mistakes.py"
_REVEALED = re.compile(r'Revealed type is "(.*)"|Type of ".*" is "(.*)"', re.DOTALL)


def marked(path, pattern):
    """The lines with a comment of that form, and what it says."""
    lines = enumerate(path.read_text().splitlines(), 1)
    return {number: match[1] for number, line in lines if (match := re.search(pattern, line))}


EXPECTED = marked(PROGRAM, r"^ *reveal_type\(.*# (.*)$")
WRONG = {*marked(MISTAKES, r"# (wrong)$")}


def mypy(directory):
    """Run mypy --strict; the messages as (file, line, severity, text)."""
    words = ("--strict", "--config-file=", f"--cache-dir={directory}", "--output=json", PROGRAM, MISTAKES)
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *words], cwd=directory, capture_output=True, text=True, check=False
    )
    assert run.returncode in (0, 1), run.stdout + run.stderr
    for line in run.stdout.splitlines():
        message = json.loads(line)
        yield Path(message["file"]).name, message["line"], message["severity"], message["message"]


def pyright(directory):
    """Run pyright as it is in an editor; the same."""
    words = ("--outputjson", "--pythonpath", sys.executable, PROGRAM, MISTAKES)
    run = subprocess.run(
        [sys.executable, "-m", "pyright", *words], cwd=directory, capture_output=True, text=True, check=False
    )
    assert run.returncode in (0, 1), run.stdout + run.stderr
    for message in json.loads(run.stdout)["generalDiagnostics"]:
        line = message["range"]["start"]["line"] + 1
        yield Path(message["file"]).name, line, message["severity"], message["message"]


@pytest.fixture(scope="module", params=[mypy, pyright], ids=lambda checker: checker.__name__)
def messages(request, tmp_path_factory):
    if request.param is pyright:
        pytest.importorskip("pyright", reason="pip install 'exposurekit[dev]' brings pyright")
    return [*request.param(tmp_path_factory.mktemp("types"))]


def test_a_program_of_an_analyst_has_no_error(messages):
    errors = [message for message in messages if message[0] == PROGRAM.name and message[2] == "error"]
    assert errors == []


def test_every_public_name_has_its_type(messages):
    revealed = {}
    for file, line, _, text in messages:
        if file == PROGRAM.name and (match := _REVEALED.search(text)):
            revealed[line] = re.sub(r"\b(?:\w+\.)+", "", match[1] or match[2])
    assert revealed == EXPECTED


def test_a_mistake_is_an_error(messages):
    refused = {line for file, line, severity, _ in messages if (file, severity) == (MISTAKES.name, "error")}
    assert refused == WRONG
