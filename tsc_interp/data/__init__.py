"""The strings models are trained and tested on: drawn, kept, and read back the same."""

from tsc_interp.data.streams import (
    TEST,
    TRAIN,
    VALIDATION,
    AllStrings,
    BalancedStream,
    Source,
    all_strings,
    report_test_set,
    sorted_tokens,
)

__all__ = [
    "TEST",
    "TRAIN",
    "VALIDATION",
    "AllStrings",
    "BalancedStream",
    "Source",
    "all_strings",
    "report_test_set",
    "sorted_tokens",
]
