"""A sum of what clients send, computed by two helpers of whom neither sees a part (docs/secret-sum.md).

A client writes its ratios in fixed point, cuts them into two shares of which each alone is noise (``encoding``), and
seals each to one helper (``sealed``). A helper sums the shares of a list of clients (``helper``); the two sums
together, and nothing less, open (``opening``).
"""
