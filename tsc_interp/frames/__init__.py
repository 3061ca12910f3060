"""What an input of a model looks like: fixed tokens, free places, where the answer is read."""

from tsc_interp.frames.frame import Frame as Frame
