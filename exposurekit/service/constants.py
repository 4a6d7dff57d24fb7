"""Constants that several packages and the CLI share; imports nothing, so that --help is fast."""

REQUESTS_PER_SECOND = 200  # per key and address, averaged over ten seconds
PERSON_NAME_MAX = 200  # characters of a name or a role, as in the tables
CONFIRMING_ABSENCES = 2  # in a row confirm a removal, unless a site requires more
VERDICTS = "possible", "quarantined", "rejected"  # of a candidate
