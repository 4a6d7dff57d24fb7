"""Accounts: integrators, and the people they registered.

::

    integrators  API keys and secrets               users        the people
    user_items   aliases, e-mails, phones, ...      consent      consent, activation, erasure
    subject      a person as a scan sees one        inputs       single values of a request
    list_inputs  lists of a request
"""
