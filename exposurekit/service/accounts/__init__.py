"""Accounts: integrators, and the people they registered.

::

    integrators  API keys and secrets               users        the people
    user_items   aliases, emails, phones, ...      consent      consent, activation, erasure
    subject      a person as a scan sees one
"""
