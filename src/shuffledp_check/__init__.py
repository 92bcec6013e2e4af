"""An independent check of shuffledp's certificates.

    python -m shuffledp_check plan.json

It imports only Python's standard library and nothing from shuffledp. If you do not trust that
program, read these files instead.

certificate.py   certificates and plans, and the paper's cells, in integers
bounded.py       bounded cells, in fractions
shared.py        bounded cells that share their way up, in fractions
"""
