"""An independent check of shuffledp's certificates.

    python -m shuffledp_check plan.json

It imports only Python's standard library, and shares no code, no arithmetic library and no search
with shuffledp. If you do not trust that program, read these files instead.

document.py      refuses data of another shape; the other files rely on it
certificate.py   certificates and plans
queries.py       what the certificate of each query claims
bounded.py …     a file per kind of cell, in integers and fractions
"""
