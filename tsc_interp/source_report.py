"""What this package reuses from the source report, in one place.

"Transformer Sequence Classification", Richard Stebbing, 2022: a chapter of the repository
https://github.com/rstebbing/workshop. Elsewhere it is called the source report; "report" alone is
the page that this package writes.
"""

TEST_LENGTH = 200
"""The longest strings of its test set: an error up to there is there to be seen."""

EXAMPLES = ("aac", "baac", "ab{100}", "b{2}c{152}", "ab{100}c{55}")
"""Its running examples."""
