"""The addresses that the service answers, by who calls them."""
