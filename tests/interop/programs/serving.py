"""A hushcall server on loopback with a published list, for other people's clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.server.serving import Clock, Village, settings_for

from hushcall.protocol.randomness import os_entropy
from hushcall.server.service import open_service
from hushcall_lab.servers import running


@dataclass
class Server:
    """Where it is, and a village of phones that report to it."""

    address: str
    village: Village


@contextmanager
def a_server(folder: Path, **options: int) -> Iterator[Server]:
    """A server that runs as long as the block."""
    clock = Clock()
    settings = settings_for(
        folder, list={"block_days": 1}, server=options
    )  # exports hold what blocks: here from its first day
    service = open_service(settings, os_entropy, clock)
    with running(service, scheduler=False) as address:
        yield Server(address, Village(service, clock))
