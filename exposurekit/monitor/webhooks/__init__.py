"""The webhook inbox: receive, verify, store, parse, ingest.

::

    receiver    HTTP request -> verified bytes -> 204    signatures  verify the sender
    writer      one durable insert per delivery          store       the inbox messages
    parsing     bytes -> a delivery, or its user's id
    ingest      inbox messages -> the history, or quarantine
"""
