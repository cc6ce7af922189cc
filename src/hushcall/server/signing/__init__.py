"""Keys, TUF metadata, and the ceremonies that change them."""
