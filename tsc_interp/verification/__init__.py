"""Which strings a classifier gets wrong, decided for every string and every length.

Four questions, each one function of a model, or of two:

    verify(model)    how many strings up to a length are wrong, exactly, and which are the first?
    horizon(model)   up to which length is there no error at all, and what is the first one?
    certify(model)   what holds at every length, as a certificate that `check` derives again?
    diff(a, b)       which strings do two models answer differently, and where do they agree?

Needs numpy, scipy and python-flint; torch only where a counterexample is replayed.
"""

from tsc_interp.verification.agreement_checker import check_agreement
from tsc_interp.verification.box_claims import CertificateError
from tsc_interp.verification.certificate_files import read_certificate
from tsc_interp.verification.certificates import Certificate, certify
from tsc_interp.verification.checker import check
from tsc_interp.verification.checker_claims import Proved
from tsc_interp.verification.comparison import Diff, diff
from tsc_interp.verification.differences import Difference, difference
from tsc_interp.verification.float32 import (
    Float32Answer,
    Float32Horizon,
    float32_answers,
    float32_horizon,
)
from tsc_interp.verification.horizons import Counterexample, Horizon, horizon
from tsc_interp.verification.ordered import verify_ordered
from tsc_interp.verification.ordered_certificates import OrderedCertificate
from tsc_interp.verification.ordered_checker import check_ordered
from tsc_interp.verification.ordered_tasks import Before, MaxOf
from tsc_interp.verification.ordered_verdict import OrderedVerdict
from tsc_interp.verification.verdict import Verdict, verify

__all__ = [
    "Before",
    "Certificate",
    "CertificateError",
    "Counterexample",
    "Diff",
    "Difference",
    "Float32Answer",
    "Float32Horizon",
    "Horizon",
    "MaxOf",
    "OrderedCertificate",
    "OrderedVerdict",
    "Proved",
    "Verdict",
    "certify",
    "check",
    "check_agreement",
    "check_ordered",
    "diff",
    "difference",
    "float32_answers",
    "float32_horizon",
    "horizon",
    "read_certificate",
    "verify",
    "verify_ordered",
]
