"""Reads certificates strictly: no duplicate keys, finite numbers only, and a limited size."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tsc_interp.errors import UsageError
from tsc_interp.files import read_regular, write_output
from tsc_interp.verification.checker.budget import CertificateError
from tsc_interp.verification.checker.document import Schema

MAX_BYTES = 64 * 2**20


def read_certificate(path: str | os.PathLike[str]) -> Any:
    """Return the JSON document in a file; duplicate keys and NaN are rejected."""
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"a certificate is read from a path, not from {type(path).__name__}")
    try:
        content = read_regular(Path(path), MAX_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise CertificateError(f"rejected: {path} is larger than {MAX_BYTES:,} bytes") from None
        raise UsageError(f"cannot read the certificate {path}: {error.strerror}") from None
    try:
        return json.loads(content, object_pairs_hook=_once, parse_constant=_no_constant)
    except RecursionError:
        raise CertificateError(f"rejected: {path} is nested too deeply") from None
    except ValueError as error:
        raise CertificateError(f"rejected: {path} is not JSON: {error}") from None


def write_certificate(
    path: str | os.PathLike[str], document: Mapping[str, Any], schema: Schema, *, force: bool
) -> None:
    """Write a certificate; what is there must be one of the same kind, unless `force` is given."""
    content = (json.dumps(document) + "\n").encode()
    write_output(Path(path), content, schema.is_start_of, force=force)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Readers differ on which of two equal keys counts, so there must not be two."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise CertificateError("rejected: a JSON object names a key twice")
    return fields


def _no_constant(name: str) -> Any:
    raise CertificateError(f"rejected: {name} is not a number of JSON")
