"""Taking part without a name, on the server: the issuer signs, the gateway opens, neither can join the two."""
