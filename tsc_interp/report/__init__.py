"""Results to pages: one `Report`, rendered for the terminal and as HTML, Markdown and JSON."""

from tsc_interp.report.examine import analyze
from tsc_interp.report.model_report import ModelCard, ModelReport
from tsc_interp.report.report import Report

__all__ = ["ModelCard", "ModelReport", "Report", "analyze"]
