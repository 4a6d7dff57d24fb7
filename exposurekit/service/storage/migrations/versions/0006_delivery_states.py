"""Deliveries get an index by state, so that counting them does not read their bodies; every row stays as it is."""

from alembic.operations import Operations

revision = "0006"
down_revision = "0005"


def upgrade(op: Operations) -> None:
    """Add it; there is no downgrade."""
    op.create_index("deliveries_of_state", "deliveries", ["state", "id"])
