"""The mechanisms by name: the one place that pairs a phone half with a server half."""
