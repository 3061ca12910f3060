"""Two models, of which one attends to CLS, were bounded as if both did."""

from __future__ import annotations

from typing import Any

import pytest

from tests.verification.models import hand_built
from tsc_interp.tasks.counts import ContainsAll
from tsc_interp.trusted.errors import NotProved
from tsc_interp.trusted.replay import Replay
from tsc_interp.verification.documents import model_of

LOG_N = "sqrt_d_head_log_n"
UP_TO: dict[str, Any] = {"letters": [0], "up_to": 3}
FROM: dict[str, Any] = {"letters": [0], "from": 2}


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(("part", "scale"), [(UP_TO, "sqrt_d_head"), (FROM, LOG_N)])
def test_each_model_attends_to_its_own_keys(first: bool, part: Any, scale: str) -> None:
    """On aaa (aa with log n) the logit is 0.75 - 0.9 (0.74 - 0.9) with CLS, and 0.1 without."""
    task = ContainsAll(letters="a")
    score = 0.0 if part is UP_TO else 0.5
    models = [
        hand_built([[score, 0.0]], [[1.0, 1.0]], 0.9, task=task, attend_cls=cls, score_scale=scale)
        for cls in (first, not first)
    ]
    for j in (0, 1):
        replay = Replay([model_of(model) for model in models], None, None)
        with pytest.raises(NotProved, match="is not proved"):
            replay.run([{**part, "tree": [["is", j]]}])
