"""Who may speak: devices, operators, their tokens and sessions."""
