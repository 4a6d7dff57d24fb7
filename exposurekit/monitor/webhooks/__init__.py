"""The webhook inbox: receive, verify, store, parse, ingest.

::

    receiver    HTTP request -> verified bytes -> 204    signatures  verify who sent it
    writer      one durable insert per delivery          store       the inbox messages
    parsing     bytes -> a delivery, or whom it is about
    ingest      inbox messages -> the history, or quarantine
"""
