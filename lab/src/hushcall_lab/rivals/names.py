"""The names of all mechanisms: the shipped ones and their rivals."""

from hushcall.mechanisms import registry

SUBSPACE, WHOLE_NUMBER, HUNDREDS = registry.SUBSPACE, registry.WHOLE_NUMBER, registry.HUNDREDS
SH_BASIC, SH_EXTENDED, SH_TUNED = registry.SH_BASIC, registry.SH_EXTENDED, registry.SH_TUNED
SH_ORIGINAL = "sh-original"
PEM = "pem"
TREEHIST = "treehist"
