"""The encrypted columns, whose data each holds, and the purpose for which it is encrypted: it decrypts for no other."""

from sqlalchemy import Column, ColumnElement, Table, func

from exposurekit.service.storage import tables

PERSON, SECRET, DOCUMENT = "users", "secrets", "documents"
CALLBACK = "callbacks"
BODY, EVENT = "deliveries", "events"
CANDIDATE = "candidates"
EVIDENCE = "evidence"
REQUEST = "mail requests"
MESSAGE = "mail"  # that of nobody has the user id 0


def encrypted_columns() -> list[tuple[Table, Column[bytes], ColumnElement[int], str | Column[str]]]:
    """Return each encrypted column, with the column of its owner's id and the purpose of its values."""
    return [
        (tables.integrators, tables.integrators.c.callback_ciphertext, tables.integrators.c.id, CALLBACK),
        (tables.users, tables.users.c.secret_ciphertext, tables.users.c.id, SECRET),
        (tables.users, tables.users.c.ciphertext, tables.users.c.id, PERSON),
        (
            tables.user_documents,
            tables.user_documents.c.ciphertext,
            tables.user_documents.c.id,
            DOCUMENT,
        ),
        (tables.deliveries, tables.deliveries.c.body_ciphertext, tables.deliveries.c.user_id, BODY),
        (
            tables.mail_messages,
            tables.mail_messages.c.ciphertext,
            func.coalesce(tables.mail_messages.c.user_id, 0),
            MESSAGE,
        ),
        *(
            (table, table.c.ciphertext, table.c.user_id, purpose)
            for table, purpose in (
                (tables.user_items, tables.user_items.c.kind),
                (tables.records, "records"),
                (tables.links, "links"),
                (tables.alerts, "alerts"),
                (tables.candidates, CANDIDATE),
                (tables.events, EVENT),
                (tables.evidence, EVIDENCE),
                (tables.mail_requests, REQUEST),
            )
        ),
    ]
