"""How a phone takes part without a name: blind tokens, and messages that a relay carries and cannot read. Pure."""
