"""The researcher's commands: audit, plan, simulate, experiment, data, bench, prove, demo."""
