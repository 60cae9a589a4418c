"""The brain: decides what runs in the next step. Plain synchronous Python without I/O, clock, torch or randomness."""
