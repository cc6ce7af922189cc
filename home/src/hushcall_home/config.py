"""The configuration of ``hushcall home``: ``home.json`` beside the store, which only its owner may read.

It holds the password of the FRITZ!Box.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from datetime import tzinfo
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from hushcall.atomic_file import atomic_write
from hushcall.client.storage.folder import HOME_FILE
from hushcall.errors import InvalidData, InvalidParameter
from hushcall_home.parts import Place, Source


@dataclass(frozen=True)
class Router:
    """A FRITZ!Box. ``limit``: numbers that a phonebook or the call barring may hold of ours."""

    address: str = "https://fritz.box"
    user: str = ""
    password: str = field(default="", repr=False)
    limit: int = 1000
    monitor_port: int = 1012


@dataclass(frozen=True)
class Page:
    """The owner's page. ``password`` is its hash. ``only_from``: the one address that may ask, without a password."""

    listen: str = "127.0.0.1:8470"
    password: str = field(default="", repr=False)
    only_from: str = ""

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        host = self._host()
        return host == "localhost" or _parsed("--page", host, self.listen, "127.0.0.1:8470").is_loopback

    def address(self) -> tuple[str, int]:
        """Host and port. On the network it wants a password, or one address that alone may ask."""
        port = self.listen.rpartition(":")[2]
        if not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
            raise InvalidParameter("--page", "be an address and a port, like 127.0.0.1:8470", self.listen)
        if not (self.is_local or self.password or self.only_from):
            raise InvalidParameter("--page", "have a password where the network sees it", self.listen)
        if self.only_from:
            _parsed("--page-only-from", self.only_from, self.only_from, "172.30.32.2")
        return self._host(), int(port)

    def _host(self) -> str:
        return self.listen.rpartition(":")[0].strip("[]")


def _parsed(option: str, host: str, value: str, example: str) -> IPv4Address | IPv6Address:
    try:
        return ip_address(host)
    except ValueError:
        raise InvalidParameter(option, f"be an address like {example}", value) from None


def hash_password(password: str, salt: bytes) -> str:
    """What the configuration keeps of the page's password."""
    digest = hashlib.scrypt(password.encode(), salt=salt, n=1 << 14, r=8, p=1)
    return f"{salt.hex()}:{digest.hex()}"


@dataclass(frozen=True)
class Config:
    """``logs`` grow (NCID, Asterisk), ``folders`` get exports. ``asterisk`` is the command that fills its blacklist."""

    fritzbox: Router | None = None
    logs: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    asterisk: str = ""
    page: Page = Page()

    @classmethod
    def load(cls, folder: Path) -> Config:
        try:
            values = json.loads((folder / HOME_FILE).read_bytes())
            router = values["fritzbox"]
            return cls(
                Router(**router) if router else None,
                tuple(map(str, values["logs"])),
                tuple(map(str, values["folders"])),
                str(values["asterisk"]),
                Page(**values["page"]),
            )
        except FileNotFoundError:
            raise InvalidParameter("home", "be set up first (hushcall home init)", str(folder)) from None
        except OSError as error:
            raise InvalidData(HOME_FILE, f"be readable ({error.strerror})", str(folder / HOME_FILE)) from None
        except (ValueError, KeyError, TypeError):
            raise InvalidData(HOME_FILE, "be as hushcall home init writes it", str(folder / HOME_FILE)) from None

    def save(self, folder: Path) -> None:
        before = os.umask(0o077)
        try:
            atomic_write(folder / HOME_FILE, json.dumps(asdict(self), indent=2) + "\n", HOME_FILE)
        finally:
            os.umask(before)

    def opened(self, zone: tzinfo) -> tuple[list[Source], list[Place]]:
        from hushcall_home import asterisk, fritzbox, logs

        sources: list[Source] = [logs.Log.named(path, zone) for path in self.logs]
        sources += [logs.Folder(Path(path), zone) for path in self.folders]
        places: list[Place] = [asterisk.Database(self.asterisk)] if self.asterisk else []
        if self.fritzbox is not None:
            box = fritzbox.Box(self.fritzbox)
            sources.append(fritzbox.CallList(box, zone))
            places += [fritzbox.CallBarring(box), fritzbox.Phonebook(box)]
        return sources, places
