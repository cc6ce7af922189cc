"""Rounds move on by the clock: opened, decided, closed, decoded, and where each one stands."""
