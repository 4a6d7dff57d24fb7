"""Words and bounds that the service and its command share, each said once. Imports nothing, so that help is quick."""

REQUESTS_PER_SECOND = 200  # of one key from one address, on average over ten seconds
WHO_MAX = 200  # letters of a name or a role, as the tables have it
STATES = "open", "frozen", "delivered", "dead"  # of a delivery
VERDICTS = "possible", "quarantined", "rejected"  # on a candidate
