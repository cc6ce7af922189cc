"""The server, when a bucket's size is known: a profile and a size come in, the bucket's parameters leave, or "skip".

Everything that depends on n (the gate, K, the tuned odds, b) is decided by the mechanism's own half.
"""

from __future__ import annotations

from typing import Any

from hushcall import checks
from hushcall.errors import InvalidParameter
from hushcall.learn.learner import Learner, ServerHalf
from hushcall.mechanisms.scheme import Scheme
from hushcall.mechanisms.schemes import scheme_of
from hushcall.numbers import NumberingPlan
from hushcall.profiles import Profile
from hushcall.report.mechanism import Mechanism


def open_bucket(
    profile: Profile, plan: NumberingPlan, users: int, seed: bytes, buckets: int = 1
) -> Learner[Any] | None:
    """The learner of a bucket with that many users (its ``mechanism`` goes to the phones); None: skip, spend nothing.

    ``buckets`` is how many are decided together: the error level covers all of them.
    """
    checks.whole("users", users, 0)
    if users == 0:
        return None
    return _half(profile.scheme).open_bucket(profile, plan, users, seed, buckets)


def learner_of(profile: Profile, plan: NumberingPlan, mechanism: Mechanism, buckets: int = 1) -> Learner[Any]:
    """The learner of a bucket that was opened before, from the mechanism that its phones were given.

    A server that is upgraded between opening and decoding may choose other parameters today; the reports have these.
    """
    scheme = scheme_of(mechanism)
    if scheme.needs_candidates:
        raise InvalidParameter("mechanism", "find numbers by itself", mechanism.name)
    return _half(scheme).resume(profile, plan, mechanism, buckets)


def _half(scheme: Scheme) -> ServerHalf:
    half: ServerHalf = scheme.server
    return half
