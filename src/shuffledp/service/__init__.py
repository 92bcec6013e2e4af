"""Client, shuffler and analyzer as services.

    collector   task = plan + K + batch rule + analyzer's key, named by its hash
    client      value ──▶ randomize ──▶ pad to K ──▶ encrypt each message ──▶ store ──▶ send
    shuffler    collect ──▶ close a full batch ──▶ order its messages ──▶ deliver ──▶ delete
    analyzer    open ──▶ drop replays ──▶ tally ──▶ release ──▶ publish

Servers share `shuffledp.tasks` (tasks, bytes, rules), `http` (serving) and `store` (databases), and
nothing else. Shuffler and analyzer must have different operators: together they learn every value.
"""

from shuffledp.extras import require

require("client")
