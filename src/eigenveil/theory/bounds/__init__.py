"""Bounds: those of the papers, each under the number of its theorem, and our own.

docs/research/theory.md lists them.
"""

from .amin import amin_theorem_2
from .chaudhuri import (
    jmlr_figure_1,
    jmlr_lemma_10,
    jmlr_lemma_11,
    jmlr_lemma_12,
    jmlr_lemma_14,
    jmlr_lemma_16,
    jmlr_lemma_17,
    jmlr_lemma_18,
    jmlr_section_3_3,
    jmlr_table_1_ratio,
    jmlr_theorem_7,
    jmlr_theorem_8,
    jmlr_theorem_9,
    jmlr_theorem_13,
    jmlr_theorem_15,
    jmlr_theorem_15_rows,
    nips_theorem_3,
    total_variation_delta,
)
from .jiang import (
    jiang_lemma_1,
    jiang_lemma_2,
    jiang_section_4,
    jiang_table_1,
    jiang_theorem_5,
    jiang_theorem_6,
    jiang_theorem_7,
    jiang_theorem_9,
    jiang_theorem_10,
)
from .ours import ExpectedLoss, expected_loss, guaranteed_correlation, sample_size
from .wang_xu import wang_xu_theorem_1, wang_xu_theorem_2, wang_xu_theorem_3, wang_xu_theorem_4

__all__ = [
    "ExpectedLoss",
    "amin_theorem_2",
    "expected_loss",
    "guaranteed_correlation",
    "jiang_lemma_1",
    "jiang_lemma_2",
    "jiang_section_4",
    "jiang_table_1",
    "jiang_theorem_5",
    "jiang_theorem_6",
    "jiang_theorem_7",
    "jiang_theorem_9",
    "jiang_theorem_10",
    "jmlr_figure_1",
    "jmlr_lemma_10",
    "jmlr_lemma_11",
    "jmlr_lemma_12",
    "jmlr_lemma_14",
    "jmlr_lemma_16",
    "jmlr_lemma_17",
    "jmlr_lemma_18",
    "jmlr_section_3_3",
    "jmlr_table_1_ratio",
    "jmlr_theorem_7",
    "jmlr_theorem_8",
    "jmlr_theorem_9",
    "jmlr_theorem_13",
    "jmlr_theorem_15",
    "jmlr_theorem_15_rows",
    "nips_theorem_3",
    "sample_size",
    "total_variation_delta",
    "wang_xu_theorem_1",
    "wang_xu_theorem_2",
    "wang_xu_theorem_3",
    "wang_xu_theorem_4",
]
