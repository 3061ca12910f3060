"""The strings models are trained and tested on: drawn, kept, and read back the same."""

from tsc_interp.data.streams import TEST as TEST
from tsc_interp.data.streams import TRAIN as TRAIN
from tsc_interp.data.streams import VALIDATION as VALIDATION
from tsc_interp.data.streams import AllStrings as AllStrings
from tsc_interp.data.streams import BalancedStream as BalancedStream
from tsc_interp.data.streams import Source as Source
from tsc_interp.data.streams import sorted_tokens as sorted_tokens
from tsc_interp.data.streams import source_test_set as source_test_set
