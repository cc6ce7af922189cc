"""A word to systemd, which ends a server that falls silent: a message comes in, a datagram leaves where one is wanted.

The protocol is sd_notify(3): a datagram to the socket that ``NOTIFY_SOCKET`` names, ``@`` in front standing for a name
outside the file system. Without the variable nothing happens.
"""

from __future__ import annotations

import os
import socket


def tell_systemd(message: str) -> None:
    """Send a message such as ``READY=1``; whoever does not listen misses nothing."""
    name = os.environ.get("NOTIFY_SOCKET", "")
    if not name.startswith(("/", "@")):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.setblocking(False)
        try:
            line.sendto(message.encode(), "\0" + name[1:] if name.startswith("@") else name)
        except OSError:
            return  # systemd went away or is busy: the next message is a second away
