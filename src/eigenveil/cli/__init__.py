"""The command line; docs/reference/command_line.md documents it."""

from .commands import app, main

__all__ = ["app", "main"]
