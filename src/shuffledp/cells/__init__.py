"""Cells, the counters that protocols are made of. `registry` lists their kinds, one folder each."""
