from importlib.util import find_spec

if find_spec("numpy") is None or find_spec("scipy") is None:
    from hushcall.errors import MissingExtra

    raise MissingExtra("decoding", "server")
