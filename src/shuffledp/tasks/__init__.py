"""Encrypted reports and batches: what client, shuffler and analyzer agree on, wherever they run.

    task        everything the three roles agree on, named by its hash
    rules       when a batch may leave the shuffler, and what the analyzer refuses
    keys        the analyzer's key pairs;  encryption   one message at a time
    wire        the bytes that travel;     reports      one user's encrypted report
    top_up      noise that the shuffler adds
    ordering    the order of a batch;      replays      messages that were seen before
    replay_memory   what is kept of all counted messages of a key
    opening     what is inside a batch;    results      what is published for it

There is no HTTP and no SQL here: the service and Spark's batch jobs both use these modules.
"""
