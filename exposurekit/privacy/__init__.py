"""Personal data: redact tables, pseudonymise people, search texts for personal values.

::

    redaction   remove personal columns from tables  pseudonyms  stable pseudonyms per machine
    detector    find personal values in texts        normalize   decode and fold text for comparison
    vocabulary  common words that identify nobody
"""
