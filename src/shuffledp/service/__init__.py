"""Client, shuffler and analyzer as services.

    collector   task = plan + K + batch rule + analyzer's key, named by its hash
    client      value ──▶ randomize ──▶ pad to K ──▶ encrypt each message ──▶ store ──▶ send
    shuffler    collect ──▶ close a full batch ──▶ order its messages ──▶ deliver ──▶ delete
    analyzer    open ──▶ drop replays ──▶ tally ──▶ release ──▶ publish

Shuffler and analyzer share `shuffledp.tasks` (tasks, bytes, rules), `web` (serving) and `storage`
(databases), and nothing else. They must have different operators: together they learn every value.
"""

from shuffledp.extras import require

require("client")
