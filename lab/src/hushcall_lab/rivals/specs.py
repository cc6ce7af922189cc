"""The rivals' specs, which the registry loads by the entry point ``hushcall.mechanisms``. No numpy here."""

from hushcall.mechanisms.registry import MechanismSpec
from hushcall.protocol.items import SUFFIX
from hushcall_lab.rivals import names
from hushcall_lab.rivals.original_histogram.client import DIGITS, OriginalHistogram
from hushcall_lab.rivals.prefix_extending.client import PrefixExtending
from hushcall_lab.rivals.tree_histogram.client import TreeHistogram

_HERE = "hushcall_lab.rivals"

SPECS = (
    MechanismSpec(names.SH_ORIGINAL, OriginalHistogram, f"{_HERE}.original_histogram.server", DIGITS, profile="paper"),
    MechanismSpec(names.PEM, PrefixExtending, f"{_HERE}.prefix_extending.server", SUFFIX, tolerates=False),
    MechanismSpec(names.TREEHIST, TreeHistogram, f"{_HERE}.tree_histogram.server", SUFFIX, tolerates=False),
)
