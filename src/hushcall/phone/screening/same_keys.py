"""Whether everybody was told the same keys: the digests that the list's root signed come in, trouble or none leaves.

A server that gives one phone a token key or a gateway of its own could tell that phone's reports from all others. It
would have to sign, for everybody, that it did: at the next sync the phone sees another digest than it was told.
"""

from __future__ import annotations

from collections.abc import Mapping

from hushcall.phone.home.store import Store
from hushcall.phone.reporting.blind_pass import TROUBLE


def compare(store: Store, server: str, published: Mapping[int, str], newest: int) -> str:
    """What is wrong with what this phone was told, up to round ``newest``; kept, so that it takes part no more."""
    told = store.rows("SELECT round, digest FROM told WHERE server = ? AND round <= ?", server, newest)
    for round_, digest in told:
        if published.get(round_) not in (digest, None) or (round_ not in published and _covered(published, round_)):
            trouble = f"in round {round_} the server gave this phone other keys than it has signed for everybody"
            store.put(TROUBLE, trouble)
            return trouble
    store.run("DELETE FROM told WHERE server = ? AND round < ?", server, min(published, default=0))
    return store.get(TROUBLE)


def _covered(published: Mapping[int, str], round_: int) -> bool:
    """Whether the signed file speaks of rounds before and after this one, and leaves this one out."""
    return bool(published) and min(published) <= round_ <= max(published)
