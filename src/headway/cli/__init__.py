"""The command line."""

from headway.cli.root import main

__all__ = ["main"]
