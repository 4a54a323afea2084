"""Live figures: for notebooks, Colab and published pages, with or without a kernel.

Each has a Python class, which holds the numbers, and an ES module, which draws them and responds
to the reader. The modules share ``kit.js``.
"""

from .alignment_stepper import AlignmentStepper
from .architecture_explorer import ArchitectureExplorer
from .batch_padding import BatchPadding
from .beam_grower import BeamGrower
from .byte_pairs import BytePairs
from .cache_size import CacheSize
from .checkpoint_bytes import CheckpointBytes
from .fill_in import FillIn
from .head_prices import HeadPrices
from .heads_explorer import HeadsExplorer
from .layer_depth import LayerDepth
from .live_training import LiveTraining
from .live_translator import LiveTranslator
from .loss_push import LossPush
from .low_rank import LowRank
from .mask_painter import MaskPainter
from .mixing_matrix import MixingMatrix
from .next_letter import NextLetter
from .norm_explorer import NormExplorer
from .one_mixture import OneMixture
from .paired_bootstrap import PairedBootstrap
from .positions_explorer import PositionsExplorer
from .roofline import Roofline
from .run_planner import RunPlanner
from .sampler import Sampler
from .scale_meter import ScaleMeter
from .schedule_explorer import ScheduleExplorer
from .soft_lookup import SoftLookup
from .who_knows import WhoKnows
from .word_swap import WordSwap

__all__ = [
    "AlignmentStepper",
    "ArchitectureExplorer",
    "BatchPadding",
    "BeamGrower",
    "BytePairs",
    "CacheSize",
    "CheckpointBytes",
    "FillIn",
    "HeadPrices",
    "HeadsExplorer",
    "LayerDepth",
    "LiveTraining",
    "LiveTranslator",
    "LossPush",
    "LowRank",
    "MaskPainter",
    "MixingMatrix",
    "NextLetter",
    "NormExplorer",
    "OneMixture",
    "PairedBootstrap",
    "PositionsExplorer",
    "Roofline",
    "RunPlanner",
    "Sampler",
    "ScaleMeter",
    "ScheduleExplorer",
    "SoftLookup",
    "WhoKnows",
    "WordSwap",
]
