"""The operator's commands: serve, round, admin, keys, config, backup, restore, relay, archive, plan-of."""
