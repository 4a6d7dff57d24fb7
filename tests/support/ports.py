"""Ports for programs that cannot choose their own: a program that can is given port 0 instead."""

import random
import socket

# Below the ephemeral ports, of which any connection could take one meanwhile.
PORTS = range(15_000, 30_000)


def free_port() -> int:
    """A port on which nothing listens, and which no connection is assigned."""
    chosen = random.SystemRandom()  # unseeded: two runs may start at the same time
    while True:
        with socket.socket() as tried:
            port = chosen.choice(PORTS)
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
