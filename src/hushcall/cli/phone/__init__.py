"""``hushcall phone``: the commands of a phone's owner."""
