"""What the source report published, repeated: its experiments, its figures, its models.

The source report is "Transformer Sequence Classification" by Richard Stebbing (2022), in the
repository https://github.com/rstebbing/workshop.
"""
