"""Accounts: integrators, and the people they registered, with their profiles and consent."""
