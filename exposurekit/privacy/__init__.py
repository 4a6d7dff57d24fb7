"""Personal data: redaction, pseudonyms, and the search for personal values in a text.

::

    redaction   what a redacted table shows         pseudonyms  stable pseudonyms per machine
    detector    find personal values in a text      variants    how a value may be written
    normalize   one spelling for comparison
"""
