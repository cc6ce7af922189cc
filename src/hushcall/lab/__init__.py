"""Experiments: simulated days, figures. Needs the ``lab`` extra; nothing else in hushcall imports this."""
