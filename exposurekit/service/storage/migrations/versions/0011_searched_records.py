"""Records say when the web search last returned their page; every row stays as it is."""

from alembic.operations import Operations
from sqlalchemy import Column

from exposurekit.service.storage.tables import Instant

revision = "0011"
down_revision = "0010"


def upgrade(op: Operations) -> None:
    """Add the column; there is no downgrade. The next scan fills it in."""
    op.add_column("records", Column("searched_at", Instant))
