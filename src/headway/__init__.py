"""Headway: LLM inference as one system."""
