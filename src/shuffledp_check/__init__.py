"""An independent check of shuffledp's certificates.

    python -m shuffledp_check plan.json

It imports nothing but Python's standard library, and nothing of shuffledp: whoever does not believe
that program can read these three files instead.

certificate.py   certificates and plans, and the paper's cells, in integers
bounded.py       bounded cells, in fractions
shared.py        bounded cells that share their way up, in fractions
"""
