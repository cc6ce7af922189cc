"""What privacy costs, exactly: coins, bounds on e^ε (exact), budgets (accounting), what a crowd adds (shuffle)."""
