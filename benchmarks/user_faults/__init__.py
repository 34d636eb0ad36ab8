"""Recorded conversations are searched for what a simulated user did that its scenario does not cover.

Modules, in reading order:
    rules: `user_faults` of one conversation; read it first.
    claims, device_claims, endings: values that stand nowhere; acts and reports without a tool; stops that come too early.
    findings: the counts of a file or a run, with an interval.
    result_files, runs: result files of tau2-bench; folders of our own runs, stepped again.
"""
