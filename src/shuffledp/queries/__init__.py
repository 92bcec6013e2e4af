"""Questions about a column of values, and how they are answered.

query.py      what a `Query` is; questions.py the six of them, each written once
options.py    the options that every query takes
calls.py      the public functions: shuffledp.count, shuffledp.histogram, …
local.py      the executor on this machine (the other one is engines/spark)
rehearsal.py  many runs of a query beside the truth (truth.py), for those who hold all values
publish.py    the one place that charges a ledger and releases a result
columns.py    columns of data frames; column_files.py of files; arrays.py and arrow.py their values
checks.py     what the arguments of queries are checked for
ledger.py     a privacy budget on disk
"""
