"""The relay, run by somebody who is not the server: carries sealed requests to one gateway, and forgets."""
