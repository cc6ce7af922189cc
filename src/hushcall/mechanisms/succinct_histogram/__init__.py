"""The paper's modified succinct histogram with each of its three randomisers, which differ in their odds alone."""

from hushcall.mechanisms.registry import MechanismSpec
from hushcall.mechanisms.succinct_histogram.client import SuccinctHistogram
from hushcall.protocol.items import SUFFIX

SPECS = tuple(
    MechanismSpec(
        f"sh-{kind}",
        SuccinctHistogram,
        "hushcall.mechanisms.succinct_histogram.server",
        SUFFIX,
        wire="sh",
        profile="paper",
        max_suffix_bits=SuccinctHistogram.code.message_bits,
        counts_apart=True,
    )
    for kind in ("basic", "extended", "tuned")
)
