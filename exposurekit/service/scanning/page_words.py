"""The words by which pages of results are read: `page_words.yaml`."""

from importlib.resources import files

from exposurekit.text import plain_yaml

_TEXT = files("exposurekit.service.scanning").joinpath("page_words.yaml").read_text("utf-8")
_WORDS = {name: frozenset(words.split()) for name, words in plain_yaml.read(_TEXT).value.items()}

LABELS, NEGATIONS, RESULTS = _WORDS["labels"], _WORDS["negations"], _WORDS["results"]
CLASSES_OF_STATES = _WORDS["classes of states"]
COMMON = RESULTS | _WORDS["sentences"]
