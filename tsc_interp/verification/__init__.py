"""Which strings a classifier gets wrong, decided for every string and every length.

Three questions, each one function of a `Checkpoint` or a `HookedClassifier`:

    verify(model)    how many strings up to a length are wrong, exactly, and which are the first?
    horizon(model)   up to which length is there no error at all, and what is the first one?
    certify(model)   what holds at every length, as a certificate that `check` derives again?

Needs numpy, scipy and python-flint; torch only where a counterexample is replayed.
"""

from tsc_interp.verification.certificates import Certificate, certify, read_certificate
from tsc_interp.verification.checker import check
from tsc_interp.verification.checker_claims import CertificateError, Proved
from tsc_interp.verification.differences import Difference, difference
from tsc_interp.verification.horizons import Counterexample, Horizon, horizon
from tsc_interp.verification.verdict import Verdict, verify

__all__ = [
    "Certificate",
    "CertificateError",
    "Counterexample",
    "Difference",
    "Horizon",
    "Proved",
    "Verdict",
    "certify",
    "check",
    "difference",
    "horizon",
    "read_certificate",
    "verify",
]
