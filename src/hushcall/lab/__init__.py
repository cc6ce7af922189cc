"""Where claims are measured: data, studies, proofs, benchmarks and the demo. Needs the ``lab`` extra.

Only the commands of ``cli/lab`` import this, and only when they run.
"""
