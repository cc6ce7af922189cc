"""The whole spectrum on one graphics card: reports go up, the numbers above a threshold come back.

Optional (``pip install 'hushcall[gpu]'``) and never trusted: what comes back is counted again on the CPU before it is
listed (``engines.gpu_card``). Needs numpy and CuPy only, so that it runs where nothing else of ours is installed.
"""
