"""Reports: one self-contained HTML page about one release, made from the release and nothing else."""

from .page import render_report, write_report
from .record import Statement, report_record
from .registry import registry_record, write_registry

__all__ = ["Statement", "registry_record", "render_report", "report_record", "write_registry", "write_report"]
