"""When does pre-training on corrupted strings help?

Pre-training is span corruption: a span of a string is removed, and the model predicts what stood
there. Then the model is fine-tuned on a task. It is compared with the same initial weights
fine-tuned alone, for as many steps of fine-tuning and for as many steps in all, and with a constant
answer.

    contains a and b       the string contains all that the answer needs; labels are few
    a letter's partner     the string does not: N names have random partners, the corpus holds the
                           facts, fine-tuning asks for some of them, the test for others
    names that share letters   spans are removed in order, with mask tokens, as in the source:
                           do similar names get similar answers, even where that is wrong?

Each seed has its own initial weights, corpus and labelled strings, the same in every arm, so
differences are taken seed by seed. Accuracy on the first task is over every count vector, and
horizons come from the exact search, so nothing is sampled. The best possible prediction of a
removed letter of the first corpus has a closed form, Laplace's rule.
"""

from __future__ import annotations

from tsc_interp.laboratories.base import Progress
from tsc_interp.laboratories.pretrain import characters, contains, partners
from tsc_interp.laboratories.pretrain.result import PretrainOptions, PretrainResult
from tsc_interp.model.threads import one_thread


@one_thread()
def run(asked: PretrainOptions, progress: Progress) -> PretrainResult:
    return PretrainResult(
        options=asked,
        questions=asked.seeds * partners.HELD_OUT,
        **partners.study(asked, progress),
        **contains.study(asked, progress),
        characters=characters.study(asked, progress),
    )
