"""Types: mypy and pyright check programs that use the public names, right and wrong."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long  # without a cache, mypy alone takes ten seconds
TYPED = Path(__file__).parent / "typed"
CACHE = Path(__file__).parent.parent / ".mypy_cache" / "typed"
PROGRAM, MISTAKES = TYPED / "analysis.py", TYPED / "mistakes.py"
_REVEALED = re.compile(r'Revealed type is "(.*)"|Type of ".*" is "(.*)"', re.DOTALL)


def marked(path, pattern):
    """The lines with a comment of that form, and its text."""
    lines = enumerate(path.read_text().splitlines(), 1)
    return {number: match[1] for number, line in lines if (match := re.search(pattern, line))}


EXPECTED = marked(PROGRAM, r"^ *reveal_type\(.*# (.*)$")
WRONG = {*marked(MISTAKES, r"# (wrong)$")}


def output_of(directory, *words):
    command = [sys.executable, "-m", *words, PROGRAM, MISTAKES]
    run = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert run.returncode in (0, 1), run.stdout + run.stderr
    return run.stdout


def mypy(directory):
    """Run mypy --strict; the messages as (file, line, severity, text)."""
    words = (f"--config-file={TYPED / 'mypy.ini'}", f"--cache-dir={CACHE}", "--output=json")
    for line in output_of(directory, "mypy", *words).splitlines():
        message = json.loads(line)
        yield Path(message["file"]).name, message["line"], message["severity"], message["message"]


def pyright(directory):
    """Run pyright as an editor does; the same."""
    output = output_of(directory, "pyright", "--outputjson", "--pythonpath", sys.executable)
    for message in json.loads(output)["generalDiagnostics"]:
        line = message["range"]["start"]["line"] + 1
        yield Path(message["file"]).name, line, message["severity"], message["message"]


@pytest.fixture(scope="module", params=[mypy, pyright], ids=lambda checker: checker.__name__)
def messages(request, tmp_path_factory):
    if request.param is pyright:
        pytest.importorskip("pyright", reason="pip install 'exposurekit[dev]' brings pyright")
    return [*request.param(tmp_path_factory.mktemp("types"))]


def test_program_of_an_analyst_has_no_error(messages):
    errors = [message for message in messages if message[0] == PROGRAM.name and message[2] == "error"]
    assert errors == []


def test_public_names_have_their_types(messages):
    revealed = {}
    for file, line, _, text in messages:
        if file == PROGRAM.name and (match := _REVEALED.search(text)):
            revealed[line] = re.sub(r"\b(?:\w+\.)+", "", match[1] or match[2])
    assert revealed == EXPECTED


def test_each_mistake_is_an_error(messages):
    refused = {line for file, line, severity, _ in messages if (file, severity) == (MISTAKES.name, "error")}
    assert refused == WRONG
