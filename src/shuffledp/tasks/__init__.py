"""Tasks, encrypted reports and batches: what client, shuffler and analyzer agree on.

    task        everything the roles agree on, named by its hash;  canonical  its bytes
    series      tasks that repeat a question;  sandbox  verifying a task in a limited process
    rules       when a batch may leave the shuffler, and what the analyzer refuses
    keys        the analyzer's key pairs;      encryption  one message at a time
    wire        the bytes that are sent;       reports     a user's report, the shuffler's top-up
    ordering    the order of a batch;          replays     dropping messages seen before
    opening     the messages of a batch;       results     what is published for it
    parts       a batch as a manifest and sorted parts;  processes  how workers are started
    signing     signatures of the roles;       log         the public log of tasks
    merkle      the log's hash tree;           tokens      one-time tokens
    blind_rsa   the tokens' signatures;        oblivious   requests through a relay

There is no HTTP and no SQL here: the service and Spark's batch jobs both use these modules.
"""
