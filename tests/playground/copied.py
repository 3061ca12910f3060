"""What the page gives to take away, as Python: made by its own JavaScript in node, and run here."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import tsc_interp as tsc
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.model.hooked import HookedClassifier
from tsc_interp.playground.scripts import ASSETS

NODE = shutil.which("node")


def python_scripts(
    strings: list[str], edits: dict[str, Any], config: ClassifierConfig
) -> list[str]:
    """What the page's "Copy Python" gives for these edits, one script per string."""
    asked = json.dumps([strings, edits, config.to_dict()])
    code = (
        f'const {{ pythonScript }} = await import("{Path(str(ASSETS)).as_uri()}/commands.mjs");'
        f'const {{ noEdits }} = await import("{Path(str(ASSETS)).as_uri()}/model.mjs");'
        f"const [strings, edits, config] = {asked};"
        "const scripts = strings.map((text) =>"
        ' pythonScript("in memory", text, { ...noEdits(), ...edits }, config));'
        "console.log(JSON.stringify(scripts));"
    )
    done = subprocess.run(
        [NODE or "node", "--input-type=module", "-e", code],
        capture_output=True,
        text=True,
        check=True,
    )
    scripts: list[str] = json.loads(done.stdout)
    return scripts


def run_script(script: str, checkpoint: Checkpoint) -> float:
    """Run a copied script, its model loaded from memory, and return the number it prints."""
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.setattr(
            tsc, "load", lambda _: HookedClassifier.from_checkpoint(checkpoint), raising=False
        )
        exec(compile(script, "copied", "exec"), {})
    return float(out.getvalue())
