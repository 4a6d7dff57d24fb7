"""Words and bounds that several rooms share, the command among them. Imports nothing, so that help is quick."""

REQUESTS_PER_SECOND = 200  # of one key from one address, on average over ten seconds
PERSON_NAME_MAX = 200  # letters of a name or a role, as the tables have it
GONE_LOOKS = 2  # in a row make a removal, unless a site wants more; one look may be a site's bad day
STATES = "open", "pending", "delivered", "dead"  # of a delivery
VERDICTS = "possible", "quarantined", "rejected"  # on a candidate
