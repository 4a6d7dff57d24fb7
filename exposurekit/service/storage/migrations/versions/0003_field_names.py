"""Tables, columns and a delivery's state get the names of the field; every row stays as it is.

Encrypted values are bound to the part of a user's data that they hold, not to a table or column, so they still decrypt.
"""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0003"
down_revision = "0002"

TABLES = {"marks": "metadata", "details": "user_items"}
COLUMNS = {  # by the table's new name
    "integrators": {"sealed_callback": "callback_ciphertext"},
    "users": {"sealed": "ciphertext", "sealed_secret": "secret_ciphertext"},
    "user_items": {"sealed": "ciphertext"},
    "records": {"sealed": "ciphertext", "gone_looks": "absences", "tries": "opt_out_attempts"},
    "links": {"sealed": "ciphertext"},
    "alerts": {"sealed": "ciphertext"},
    "candidates": {"sealed": "ciphertext"},
    "deliveries": {"sealed_body": "body_ciphertext"},
    "events": {"sealed": "ciphertext"},
    "sites": {
        "looks": "scans",
        "inconclusive_looks": "inconclusive_scans",
        "distrusted_looks": "untrusted_scans",
        "last_look_at": "last_scan_at",
        "last_good_look_at": "last_good_scan_at",
    },
}
# PostgreSQL names what belongs to a table after it, and keeps those names when the table is renamed.
POSTGRESQL = (
    "ALTER INDEX marks_pkey RENAME TO metadata_pkey",
    "ALTER INDEX details_pkey RENAME TO user_items_pkey",
    "ALTER SEQUENCE details_id_seq RENAME TO user_items_id_seq",
    "ALTER TABLE user_items RENAME CONSTRAINT details_user_id_fkey TO user_items_user_id_fkey",
)


def upgrade(op: Operations) -> None:
    """Rename; there is no downgrade."""
    op.drop_index("ix_details_user_id", "details")
    for old, new in TABLES.items():
        op.rename_table(old, new)
    op.create_index("ix_user_items_user_id", "user_items", ["user_id"], unique=False)
    for table, columns in COLUMNS.items():
        for old, new in columns.items():
            op.alter_column(table, old, new_column_name=new)
    if op.get_context().dialect.name == "postgresql":
        for statement in POSTGRESQL:
            op.execute(sa.text(statement))
    op.execute(sa.text("UPDATE deliveries SET state = 'pending' WHERE state = 'frozen'"))
