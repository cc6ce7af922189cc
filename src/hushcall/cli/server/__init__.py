"""The operator's commands: serve, round, admin, keys, config, relay, archive, plan-of."""
