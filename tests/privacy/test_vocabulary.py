"""The common words are a data file, so that editing code does not change what counts as personal."""

from support.common_words import FILE, displayed_words

from exposurekit.privacy.vocabulary import is_common


def test_common_words_include_those_of_all_displayed_texts():
    """If this fails, run: python tests/support/common_words.py, and check that it adds no names."""
    assert sorted(word for word in displayed_words() if not is_common(word)) == []


def test_common_words_are_sorted_lowercase_and_few():
    words = FILE.read_text("utf-8").split()
    assert words == sorted({word for word in words if word.isascii() and word.isalpha() and word.islower()})
    assert 1_000 < len(words) < 2_000


def test_first_names_and_code_are_no_common_words():
    assert not any(
        map(is_common, ("ed", "jo", "rose", "fell", "hern", "tuple", "isinstance", "odalys", "fennimoor"))
    )
