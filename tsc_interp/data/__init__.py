"""The strings models are trained and tested on: drawn, kept, and read back the same."""

from tsc_interp.data.streams import (
    TEST,
    TRAIN,
    VALIDATION,
    AllStrings,
    BalancedStream,
    Source,
    all_strings,
    sorted_tokens,
    source_test_set,
)

__all__ = [
    "TEST",
    "TRAIN",
    "VALIDATION",
    "AllStrings",
    "BalancedStream",
    "Source",
    "all_strings",
    "sorted_tokens",
    "source_test_set",
]
