"""How a phone speaks without a name: the same calls as :mod:`transport`, with a blind token, and through a relay.

Requests are sealed for the gateway and padded to one length, so the relay sees an address and a kilobyte; the server
sees a token that it cannot connect with a device. Nothing ever falls back to speaking directly: a relay that does not
answer is waited for, because the fall-back would tell what the relay is there to hide.
"""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import urlsplit

from hushcall.anonymity import binary_http, ohttp
from hushcall.errors import InvalidMessage, Unreachable
from hushcall.phone.reporting.transport import Answer, HttpTransport
from hushcall.privacy.coins import ByteSource, os_entropy
from hushcall.protocol.anonymity import AnonymityTerms

PADDED = 1024
"""All requests have this many bytes inside the seal: the longest, a report with its token, has some 700."""


class NamelessTransport(HttpTransport):
    """A server behind its relay, or behind nothing where it has none. ``token`` is empty for what needs none."""

    def __init__(
        self,
        url: str,
        terms: AnonymityTerms,
        token: bytes = b"",
        *,
        coins: ByteSource = os_entropy,
        **connection: Any,
    ) -> None:
        super().__init__(url, **connection)
        self._terms, self._blind, self._coins = terms, token, coins

    def authorization(self) -> str:
        """``PrivateToken token=…`` as RFC 9577, section 2.2, writes it."""
        return f'PrivateToken token="{base64.urlsafe_b64encode(self._blind).decode()}"' if self._blind else ""

    def _once(self, method: str, path: str, body: bytes | None, kind: str) -> Answer:
        if not self._terms.relay:
            return super()._once(method, path, body, kind)
        sealed, exchange = ohttp.encapsulate_request(
            self._terms.gateway, self._plain(method, path, body, kind), self._coins
        )
        headers = {"User-Agent": "hushcall", "Content-Type": ohttp.REQUEST_TYPE, "Accept-Encoding": "identity"}
        answer = self.fetch("POST", self._terms.relay, sealed, headers)
        if answer.status != 200 or answer.headers.get("Content-Type") != ohttp.RESPONSE_TYPE:
            return answer  # the relay, or the gateway outside of the seal, says no
        return self._opened(exchange, answer.data)

    def _plain(self, method: str, path: str, body: bytes | None, kind: str) -> bytes:
        fields = [("accept", b"application/json")]
        if kind:
            fields.append(("content-type", kind.encode()))
        if self.authorization():
            fields.append(("authorization", self.authorization().encode()))
        authority = urlsplit(self.url).netloc
        request = binary_http.Request(method, "https", authority, path, tuple(fields), body or b"")
        return binary_http.padded(request.to_bytes(), PADDED)

    def _opened(self, exchange: ohttp.Exchange, sealed: bytes) -> Answer:
        try:
            response = binary_http.read_response(ohttp.decapsulate_response(exchange, sealed))
        except InvalidMessage:
            raise Unreachable(
                f"{self.url} does not answer through its relay: what came back was not sealed for us"
            ) from None
        headers = {
            "-".join(part.capitalize() for part in name.split("-")): value.decode("latin-1")
            for name, value in response.fields
        }
        return Answer(response.status, headers, response.content)
