"""Client, shuffler and analyzer as services: three roles that share only the wire format.

    collector   task = plan + K + batch rule + analyzer's key, named by its hash
    client      value ──▶ randomize ──▶ pad to K ──▶ seal each message ──▶ store ──▶ send
    shuffler    collect ──▶ a full batch ──▶ an order that says nothing ──▶ deliver ──▶ scrub
    analyzer    open ──▶ drop replays ──▶ tally ──▶ release ──▶ publish

The shuffler and the analyzer must have different operators: together they learn every value.
"""
