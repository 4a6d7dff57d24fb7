"""The only door to the network on the toolkit's side."""

from exposurekit.client.client import AsyncClient, Client
from exposurekit.client.retries import Patience

__all__ = ["AsyncClient", "Client", "Patience"]
