"""Mail of sites: the operator's mailbox, messages and their signatures, and the opt-out requests that wait for them."""
