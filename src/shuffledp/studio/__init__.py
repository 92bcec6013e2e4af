"""The studio: a local web page to plan, rehearse and collect without writing code.

    app.py         the routes; serving.py the server, and who may use it (one-time link, cookie)
    workers.py     jobs in worker processes: the newest request wins, outdated work is killed
    jobs.py        such a process, and what it does
    questions.py   the queries of the page's form; words.py plans in sentences; examples.py results
                   in words; suggesting.py the closest targets that can be reached
    frontier.py    error against messages, ours and the baselines', point by point
    rehearsing.py  many runs on an uploaded file; uploads.py the file; importing.py reads it once,
                   cells.py finds the types of its columns
    collecting.py  a task at two servers and its progress; running.py the current collection,
                   or a trial with servers and simulated devices on this machine; kept.py those
                   that a studio started again finds
    report.py      a page for a board, with an annex; public_page.py a page for the public
    page/          HTML, style and scripts

Nothing here computes a plan, a proof or an estimate: the packages below do.
"""

from shuffledp.extras import require

require("studio")
