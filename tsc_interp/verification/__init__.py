"""Which strings a classifier gets wrong, decided for every string and every length.

Four questions, each one function of a model, or of two:

    verify(model)    how many strings up to a length are wrong, exactly, and which are the first?
    horizon(model)   up to which length is there no error at all, and what is the first one?
    certify(model)   what holds at every length, as a certificate that `check` derives again?
    diff(a, b)       which strings do two models answer differently, and where do they agree?

What has to be trusted is in `tsc_interp/trusted/`, which imports nothing else of this package's.
Names are loaded when they are first used.

Needs numpy, scipy and python-flint; torch only where a counterexample is replayed.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what a type checker reads, and where a name is found when it is first used
    from tsc_interp.verification.certificates import Certificate as Certificate
    from tsc_interp.verification.checking import check as check
    from tsc_interp.verification.comparison import Diff as Diff
    from tsc_interp.verification.comparison import diff as diff
    from tsc_interp.verification.counting.differences import Difference as Difference
    from tsc_interp.verification.counting.differences import difference as difference
    from tsc_interp.verification.documents import CertificateError as CertificateError
    from tsc_interp.verification.documents import read_certificate as read_certificate
    from tsc_interp.verification.float32 import Float32Answer as Float32Answer
    from tsc_interp.verification.float32 import float32_answers as float32_answers
    from tsc_interp.verification.float32 import float32_horizon as float32_horizon
    from tsc_interp.verification.horizon_result import Counterexample as Counterexample
    from tsc_interp.verification.horizon_result import Float32Horizon as Float32Horizon
    from tsc_interp.verification.horizon_result import Horizon as Horizon
    from tsc_interp.verification.horizons import horizon as horizon
    from tsc_interp.verification.order.certificate_result import (
        OrderedCertificate as OrderedCertificate,
    )
    from tsc_interp.verification.order.verdict import OrderedVerdict as OrderedVerdict
    from tsc_interp.verification.proved import Proved as Proved
    from tsc_interp.verification.questions import certify as certify
    from tsc_interp.verification.questions import verify as verify
    from tsc_interp.verification.questions import verify_ordered as verify_ordered
    from tsc_interp.verification.verdict import Verdict as Verdict

_IMPORT = re.compile(r"^    from (\S+) import \(?\s*(\w+) as", re.MULTILINE)
_HOMES = {name: home for home, name in _IMPORT.findall(Path(__file__).read_text())}

__all__ = list(_HOMES)

if not TYPE_CHECKING:  # a name that is not there is then an error, not an Any

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
