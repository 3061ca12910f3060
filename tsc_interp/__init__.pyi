# ruff: noqa: I001, RUF022 (by topic, not by module)
# The public names: the one table of them. Type checkers read this file, and
# __init__.py takes from it which module a name is loaded from.

__all__ = [
    # a model, its inputs, its task
    "load", "from_transformer_lens", "from_torch", "from_arrays", "Frame", "tasks",
    # what it gets wrong, and a proof
    "falsify", "verify", "horizon", "certify", "check",
    # why
    "evaluate", "analyze", "run_probe",
    # another model
    "intervene", "prune", "diff", "construct", "train", "sweep",
]  # fmt: skip

from tsc_interp import tasks as tasks
from tsc_interp._version import __version__ as __version__
from tsc_interp.errors import TscError as TscError

# models
from tsc_interp.checkpoints.checkpoint import Checkpoint as Checkpoint
from tsc_interp.config import ClassifierConfig as ClassifierConfig
from tsc_interp.model.hooked import HookedClassifier as HookedClassifier
from tsc_interp.model.hooked import load as load
from tsc_interp.model.import_arrays import from_arrays as from_arrays
from tsc_interp.model.import_torch import from_torch as from_torch
from tsc_interp.model.importing import from_transformer_lens as from_transformer_lens

# inputs, and the ones a model gets wrong
from tsc_interp.falsification.falsify import falsify as falsify
from tsc_interp.frames.frame import Frame as Frame

# analysis
from tsc_interp.model.evaluation import evaluate as evaluate
from tsc_interp.probes.registry import run_probe as run_probe
from tsc_interp.report.attention import show_attention as show_attention
from tsc_interp.report.examine import analyze as analyze
from tsc_interp.report.report import Report as Report

# verification
from tsc_interp.verification import Certificate as Certificate
from tsc_interp.verification import Horizon as Horizon
from tsc_interp.verification import Verdict as Verdict
from tsc_interp.verification import certify as certify
from tsc_interp.verification import check as check
from tsc_interp.verification import diff as diff
from tsc_interp.verification import horizon as horizon
from tsc_interp.verification import verify as verify
from tsc_interp.formal.theorem import Theorem as Theorem
from tsc_interp.formal.theorem import theorem as theorem

# changing models, and writing them
from tsc_interp.interventions.hooks import intervene as intervene
from tsc_interp.interventions.intervention import Intervention as Intervention
from tsc_interp.interventions.weights import edit as edit
from tsc_interp.construction.construct import construct as construct
from tsc_interp.pruning.prune import prune as prune

# training, sweeps, laboratories, pages
from tsc_interp.checkpoints.run_list import runs as runs
from tsc_interp.playground.page import write_playground as write_playground
from tsc_interp.report.laboratory import lab as lab
from tsc_interp.sweeps.running import sweep as sweep
from tsc_interp.training.config import TrainingConfig as TrainingConfig
from tsc_interp.training.experiments import Experiment as Experiment
from tsc_interp.training.jobs import train as train
