"""The containers of a lease: brought up, watched, read, copied out and removed.

Everything here goes through Docker's API or Testcontainers' Compose support, never through a path that only exists
when Docker runs on this machine, so that a remote engine works as well. Nothing here judges a verification: what broke
underneath is raised as `StackError` with what was seen, and the caller writes it down.
"""
