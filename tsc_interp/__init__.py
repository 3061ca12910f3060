"""tsc-interp: why a small transformer sequence classifier is right or wrong, exactly.

The public names. Each is loaded when it is first used, so that `import tsc_interp` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tsc_interp._version import __version__ as __version__

if TYPE_CHECKING:  # what a type checker reads; the table below is what happens
    from tsc_interp.checkpoints import Checkpoint as Checkpoint
    from tsc_interp.checkpoints import bundled_names as bundled_names
    from tsc_interp.checkpoints import load_checkpoint as load_checkpoint
    from tsc_interp.checkpoints.run_directory import RunDirectory as RunDirectory
    from tsc_interp.checkpoints.run_list import runs as runs
    from tsc_interp.config import ClassifierConfig as ClassifierConfig
    from tsc_interp.errors import TscError as TscError
    from tsc_interp.interventions.hooks import Hooks as Hooks
    from tsc_interp.interventions.hooks import intervene as intervene
    from tsc_interp.interventions.intervention import Intervention as Intervention
    from tsc_interp.interventions.weights import edit as edit
    from tsc_interp.laboratories.construct.construct import construct as construct
    from tsc_interp.laboratories.construct.written import Construction as Construction
    from tsc_interp.model.evaluation import Evaluation as Evaluation
    from tsc_interp.model.evaluation import evaluate as evaluate
    from tsc_interp.model.hooked import HookedClassifier as HookedClassifier
    from tsc_interp.model.hooked import load as load
    from tsc_interp.model.import_torch import from_torch as from_torch
    from tsc_interp.model.importing import from_transformer_lens as from_transformer_lens
    from tsc_interp.playground import write_playground as write_playground
    from tsc_interp.probes.registry import run_probe as run_probe
    from tsc_interp.pruning import Pruned as Pruned
    from tsc_interp.pruning import prune as prune
    from tsc_interp.report import Report as Report
    from tsc_interp.report import analyze as analyze
    from tsc_interp.report.grid import write_grid as write_grid
    from tsc_interp.report.laboratory import LabReport as LabReport
    from tsc_interp.report.laboratory import lab as lab
    from tsc_interp.report.sweep import sweep_report as sweep_report
    from tsc_interp.strings import Alphabet as Alphabet
    from tsc_interp.sweeps import Sweep as Sweep
    from tsc_interp.sweeps import sweep as sweep
    from tsc_interp.task import AtLeast as AtLeast
    from tsc_interp.task import Before as Before
    from tsc_interp.task import ContainsAll as ContainsAll
    from tsc_interp.task import Majority as Majority
    from tsc_interp.task import Maximum as Maximum
    from tsc_interp.task import MostFrequent as MostFrequent
    from tsc_interp.task import OwnTask as OwnTask
    from tsc_interp.task import Parity as Parity
    from tsc_interp.training.config import RunConfig as RunConfig
    from tsc_interp.training.config import TrainingConfig as TrainingConfig
    from tsc_interp.training.experiments import Experiment as Experiment
    from tsc_interp.training.experiments import load_experiment as load_experiment
    from tsc_interp.training.experiments import make_experiment as make_experiment
    from tsc_interp.training.jobs import train as train
    from tsc_interp.training.jobs import train_seeds as train_seeds
    from tsc_interp.verification import Certificate as Certificate
    from tsc_interp.verification import Diff as Diff
    from tsc_interp.verification import Difference as Difference
    from tsc_interp.verification import Float32Horizon as Float32Horizon
    from tsc_interp.verification import Horizon as Horizon
    from tsc_interp.verification import OrderedVerdict as OrderedVerdict
    from tsc_interp.verification import Verdict as Verdict
    from tsc_interp.verification import certify as certify
    from tsc_interp.verification import check as check
    from tsc_interp.verification import check_agreement as check_agreement
    from tsc_interp.verification import check_ordered as check_ordered
    from tsc_interp.verification import diff as diff
    from tsc_interp.verification import difference as difference
    from tsc_interp.verification import float32_answers as float32_answers
    from tsc_interp.verification import float32_horizon as float32_horizon
    from tsc_interp.verification import horizon as horizon
    from tsc_interp.verification import read_certificate as read_certificate
    from tsc_interp.verification import verify as verify
    from tsc_interp.verification import verify_ordered as verify_ordered

_PUBLIC = {
    "Checkpoint": "tsc_interp.checkpoints",
    "bundled_names": "tsc_interp.checkpoints",
    "load_checkpoint": "tsc_interp.checkpoints",
    "RunDirectory": "tsc_interp.checkpoints.run_directory",
    "runs": "tsc_interp.checkpoints.run_list",
    "ClassifierConfig": "tsc_interp.config",
    "TscError": "tsc_interp.errors",
    "Hooks": "tsc_interp.interventions.hooks",
    "intervene": "tsc_interp.interventions.hooks",
    "Intervention": "tsc_interp.interventions.intervention",
    "edit": "tsc_interp.interventions.weights",
    "construct": "tsc_interp.laboratories.construct.construct",
    "Construction": "tsc_interp.laboratories.construct.written",
    "Evaluation": "tsc_interp.model.evaluation",
    "evaluate": "tsc_interp.model.evaluation",
    "HookedClassifier": "tsc_interp.model.hooked",
    "from_torch": "tsc_interp.model.import_torch",
    "from_transformer_lens": "tsc_interp.model.importing",
    "load": "tsc_interp.model.hooked",
    "write_grid": "tsc_interp.report.grid",
    "write_playground": "tsc_interp.playground",
    "run_probe": "tsc_interp.probes.registry",
    "Pruned": "tsc_interp.pruning",
    "prune": "tsc_interp.pruning",
    "Report": "tsc_interp.report",
    "analyze": "tsc_interp.report",
    "LabReport": "tsc_interp.report.laboratory",
    "lab": "tsc_interp.report.laboratory",
    "Alphabet": "tsc_interp.strings",
    "Sweep": "tsc_interp.sweeps",
    "sweep_report": "tsc_interp.report.sweep",
    "sweep": "tsc_interp.sweeps",
    "AtLeast": "tsc_interp.task",
    "Before": "tsc_interp.task",
    "ContainsAll": "tsc_interp.task",
    "Majority": "tsc_interp.task",
    "Maximum": "tsc_interp.task",
    "MostFrequent": "tsc_interp.task",
    "OwnTask": "tsc_interp.task",
    "Parity": "tsc_interp.task",
    "RunConfig": "tsc_interp.training.config",
    "TrainingConfig": "tsc_interp.training.config",
    "Experiment": "tsc_interp.training.experiments",
    "load_experiment": "tsc_interp.training.experiments",
    "make_experiment": "tsc_interp.training.experiments",
    "train": "tsc_interp.training.jobs",
    "train_seeds": "tsc_interp.training.jobs",
    "Certificate": "tsc_interp.verification",
    "Diff": "tsc_interp.verification",
    "Difference": "tsc_interp.verification",
    "Horizon": "tsc_interp.verification",
    "OrderedVerdict": "tsc_interp.verification",
    "Verdict": "tsc_interp.verification",
    "certify": "tsc_interp.verification",
    "check": "tsc_interp.verification",
    "check_agreement": "tsc_interp.verification",
    "check_ordered": "tsc_interp.verification",
    "diff": "tsc_interp.verification",
    "difference": "tsc_interp.verification",
    "Float32Horizon": "tsc_interp.verification",
    "float32_answers": "tsc_interp.verification",
    "float32_horizon": "tsc_interp.verification",
    "horizon": "tsc_interp.verification",
    "read_certificate": "tsc_interp.verification",
    "verify": "tsc_interp.verification",
    "verify_ordered": "tsc_interp.verification",
}

__all__ = ["__version__", *_PUBLIC]

if not TYPE_CHECKING:  # a name that is not there is then an error, not an Any

    def __getattr__(name: str) -> Any:
        if name not in _PUBLIC:
            raise AttributeError(f"module 'tsc_interp' has no attribute {name!r}")
        return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
