"""The self-hosted service: the whole specification, durable and encrypted.

::

    api/        HTTP: routes, authentication, responses, OpenAPI
    accounts/   integrators, people, their profiles and consent
    findings/   records, removals, candidates and alerts
    scanning/   scan sites and the web, send opt-outs
    matching/   whether a listing is a person's
    mail/       messages that confirm opt-outs, and opt-outs by email
    sites/      site definitions, and how the sites behave
    webhooks/   events to integrators
    http/       outgoing HTTP
    storage/    database, encryption, leases, migrations
    worker      background jobs
"""
