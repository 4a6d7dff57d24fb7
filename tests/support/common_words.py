"""Add the words of the package's displayed texts to privacy/common_words.txt: python tests/support/common_words.py"""

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "exposurekit"
FILE = PACKAGE / "privacy" / "common_words.txt"
SOURCES = (
    "analysis",
    "charts",
    "contract",
    "reports",
    "reports/templates",
)  # their texts are on shared pages
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_HIDDEN = re.compile(
    r'\b(?:class|id|style|http-equiv|name)="[^"]*"|<style>.*?</style>', re.DOTALL
)  # of a template
_WORD = re.compile(r"(?<![^\W_])[a-z]+(?![^\W_])")  # what has a capital may be a name of an example


def displayed_words():
    """The words of strings, but for docstrings, and of page templates."""
    texts = []
    for source in SOURCES:
        for path in (PACKAGE / source).iterdir():
            if path.suffix == ".html":
                texts.append(_HIDDEN.sub("", path.read_text("utf-8")))
            elif path.suffix == ".py":
                texts += _strings(ast.parse(path.read_text("utf-8")))
    return set(_WORD.findall(" ".join(texts)))


def _strings(module):
    nodes = [*ast.walk(module)]
    docstrings = {
        id(node.body[0].value) for node in nodes if isinstance(node, _DOCUMENTED) and _docstring(node)
    }
    return [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
        and not node.value.startswith("--")  # an option of a program
    ]


def _docstring(node):
    return ast.get_docstring(node) is not None


if __name__ == "__main__":
    from exposurekit.privacy.vocabulary import is_common

    words = {*FILE.read_text("utf-8").split(), *(word for word in displayed_words() if not is_common(word))}
    FILE.write_text("".join(f"{word}\n" for word in sorted(words)), "utf-8")
