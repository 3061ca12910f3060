"""What the init-norm probe measures: sizes of fresh models, and of this one."""

from __future__ import annotations

from typing import ClassVar

from tsc_interp.results.base import Cell, LabeledArray, ProbeResult, Table


class InitNormResult(ProbeResult):
    probe: ClassVar[str] = "init-norm"

    seeds: int
    d_model: int = 0
    """Of this model."""
    embedding_norms: LabeledArray
    """[strategy, width, statistic]: mean, 5 % and 95 % quantiles, and what theory says."""
    score_spread: LabeledArray | None
    """[strategy, width]: standard deviation of CLS's scores over seeds, heads and letters."""
    logit_spread: LabeledArray
    """[strategy, width]: standard deviation of the logits over seeds and strings."""
    before: LabeledArray | None
    """[weight, statistic]: each weight's root mean square over seeds, for this configuration."""
    after: LabeledArray
    """[weight]: the same of this model."""
    own_norms: LabeledArray
    """[token]: the norms of this model's embeddings."""

    def tables(self) -> tuple[Table, ...]:
        labels = self.embedding_norms.labels
        rows: list[tuple[Cell, ...]] = []
        for i, strategy in enumerate(labels["strategy"]):
            for j, width in enumerate(labels["width"]):
                norms, logits = self.embedding_norms.array[i, j], self.logit_spread.array[i, j]
                scores = None if self.score_spread is None else self.score_spread.array[i, j].item()
                rows.append((strategy, int(width), *norms.tolist(), scores, float(logits)))
        columns = ("strategy", "d_model", "mean norm", "5 %", "95 %", "theory", "scores", "logits")
        title = f"At initialisation, over {self.seeds} seeds (scores, logits: standard deviation)"
        return (Table.from_rows(title, columns, rows), *self._before_and_after())

    def _before_and_after(self) -> list[Table]:
        if self.before is None:
            return []
        before, after = self.before.array.tolist(), self.after.array.tolist()
        rows = zip(self.after.labels["weight"], before, after, strict=True)
        norms = zip(self.own_norms.labels["token"], self.own_norms.array.tolist(), strict=True)
        return [
            Table.from_rows(
                "Root mean square of each weight, fresh (over seeds) and in this model",
                ("weight", "fresh mean", "fresh 5 %", "fresh 95 %", "this model"),
                ((weight, *before, after) for weight, before, after in rows),
            ),
            Table.from_rows("Norms of this model's embeddings", ("token", "norm"), norms),
        ]
