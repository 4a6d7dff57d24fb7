"""What keeps watch: the inbox of webhooks, and rounds on a clock. Speaks to a service over HTTP alone.

From the wire to the history::

    inbox       a request -> verified bytes -> 204      signatures  whether they are its sender's
    writer      bytes -> one durable insert
    letters     what was received, in one `database`
    reading     bytes -> a delivery; or whom they are about
    draining    letters -> the history, or quarantine

From the history to people::

    rules       what somebody wants to be told, and where   causes      what happened of that
    notices     what waits to be told, in a `database`      telling     who tells it
                                                            refusals    why it did not arrive
"""
