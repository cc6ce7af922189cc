"""What privacy costs, exactly: sampling (coins), bounds on e^ε (exact), budgets (accounting), proof (audit)."""
