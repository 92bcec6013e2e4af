"""The studio: a local web page to plan, rehearse and collect without writing code.

    app.py         the routes; access.py who may use them (loopback, one-time token, cookie)
    lanes.py       work in other processes: the newest request wins, outdated work is ended
    worker.py      such a process; jobs.py what it does
    questions.py   what can be asked, as the page's form says it; words.py plans in sentences
    frontier.py    error against messages, ours and the baselines', point by point
    rehearsing.py  many runs on an uploaded file beside the truth; uploads.py the file
    collecting.py  a task at two servers and how far it is; trial.py servers on this machine
    report.py      one page for a data-protection officer
    page/          HTML, style and scripts

Nothing here computes a plan, a proof or an estimate: the rooms below do.
"""

from shuffledp.extras import require

require("studio")
