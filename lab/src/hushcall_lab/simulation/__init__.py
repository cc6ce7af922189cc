"""The whole system on one machine: a real server, a fleet of phones, and the demo that shows both."""
