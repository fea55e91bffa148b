"""The lane: drives the planned cells of one lease inside the environment and writes their ledgers and evidence.

It joins agents, oracle and ledger. It decides nothing about a verdict: that is made from plan and ledger, elsewhere.
"""
