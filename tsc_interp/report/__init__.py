"""Results to pages: one `Report`, rendered for the terminal and as HTML, Markdown and JSON."""

from typing import TYPE_CHECKING, Any

from tsc_interp.report.model_report import ModelCard, ModelReport
from tsc_interp.report.report import Report

if TYPE_CHECKING:
    from tsc_interp.report.examine import analyze

__all__ = ["ModelCard", "ModelReport", "Report", "analyze"]


def __getattr__(name: str) -> Any:
    """`analyze` runs models and so needs torch; a report read from JSON does not."""
    if name != "analyze":
        raise AttributeError(f"module 'tsc_interp.report' has no attribute {name!r}")
    from tsc_interp.report.examine import analyze

    return analyze
