"""What a classifier is: its options, checked, and the weights they call for."""

from tsc_interp.config.classifier import ClassifierConfig as ClassifierConfig
from tsc_interp.config.classifier import require_report_family as require_report_family
