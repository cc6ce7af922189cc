"""The mechanisms: ``registry`` lists them by name, ``parameters`` is their JSON form."""
