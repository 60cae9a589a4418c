"""Requests and sessions: what arrives, from trace files and from generators. Read by the simulator and by bench."""
