"""The service's front: requests in, answers out. Decides nothing about people; the domain never sees it."""
