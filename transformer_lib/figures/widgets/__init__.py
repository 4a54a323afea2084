"""Live figures: in a notebook, in Colab and in the published page, with or without a kernel.

Each is one Python class, which holds the numbers, and one ES module, which draws them and
answers to the reader. The modules share ``kit.js``.
"""

from .alignment_stepper import AlignmentStepper
from .architecture_explorer import ArchitectureExplorer
from .beam_grower import BeamGrower
from .byte_pairs import BytePairs
from .heads_explorer import HeadsExplorer
from .mask_painter import MaskPainter
from .mixing_matrix import MixingMatrix
from .norm_explorer import NormExplorer
from .positions_explorer import PositionsExplorer
from .run_planner import RunPlanner
from .scale_meter import ScaleMeter
from .schedule_explorer import ScheduleExplorer
from .soft_lookup import SoftLookup

__all__ = [
    "AlignmentStepper",
    "ArchitectureExplorer",
    "BeamGrower",
    "BytePairs",
    "HeadsExplorer",
    "MaskPainter",
    "MixingMatrix",
    "NormExplorer",
    "PositionsExplorer",
    "RunPlanner",
    "ScaleMeter",
    "ScheduleExplorer",
    "SoftLookup",
]
