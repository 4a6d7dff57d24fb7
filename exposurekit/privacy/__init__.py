"""Personal data: redaction, pseudonyms, and the search for personal values in texts.

::

    redaction   what a redacted table contains      pseudonyms  stable pseudonyms per machine
    detector    find personal values in texts       normalize   one spelling for comparison
    vocabulary  words that are no evidence of anybody
"""
