"""Reports: one self-contained HTML page about one release, made from the release and nothing else."""

from .page import render_report, write_report

__all__ = ["render_report", "write_report"]
