"""Monitoring: a webhook inbox, a watch that collects on a schedule, and notifications.

::

    watch            collect, process the inbox and notify, on a schedule
    status           the watch's status file, which `watch status` reports
    sqlite           the SQLite databases of the inbox and the outbox
    webhooks/        receive deliveries, store them, ingest them into a history
    notifications/   rules, triggers, the outbox and sending
"""
