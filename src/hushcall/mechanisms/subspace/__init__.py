"""The subspace mechanism: over suffixes, with the area code in the clear, or over whole numbers."""

from hushcall.mechanisms.registry import MechanismSpec
from hushcall.mechanisms.subspace.client import Subspace, SubspaceHundreds, WholeNumber
from hushcall.protocol.items import HUNDRED, PLACED, SUFFIX

_SERVER = "hushcall.mechanisms.subspace.server"
SPECS = (
    MechanismSpec(Subspace.name, Subspace, _SERVER, SUFFIX, pools=True, one_value=True, hundreds=SubspaceHundreds.name),
    MechanismSpec(SubspaceHundreds.name, SubspaceHundreds, _SERVER, HUNDRED, pools=True, one_value=True, alone=False),
    MechanismSpec(
        WholeNumber.name, WholeNumber, _SERVER, PLACED, max_suffix_bits=24, parts=16, pools=True, one_value=True
    ),
)
