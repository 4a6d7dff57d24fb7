"""Integrators get a quota of people, and an index by which they share scans; every row stays as it is."""

from alembic.operations import Operations
from sqlalchemy import Column, Integer

revision = "0005"
down_revision = "0004"


def upgrade(op: Operations) -> None:
    """Add both; there is no downgrade."""
    op.add_column("integrators", Column("people_max", Integer))
    op.create_index("users_due_of_integrator", "users", ["integrator_id", "due_at", "id"])
