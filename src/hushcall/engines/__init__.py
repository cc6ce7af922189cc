"""Where decoding happens: in processes of this machine, on a Dask cluster, or on a graphics card. Same bytes out."""
