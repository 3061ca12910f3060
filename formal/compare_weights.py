"""Does a Weights.v hold a checkpoint's numbers? compare_weights.py Weights.v MODEL.safetensors

It shares nothing with the program that wrote the file: rewrite it yourself rather than trust it.
"""

import re
import sys
from pathlib import Path

from safetensors.numpy import load_file

text, arrays = Path(sys.argv[1]).read_text(), load_file(sys.argv[2])
for name, array in arrays.items():
    field = re.search(rf"^  {name.split('.')[-1]} := (.*?);?$", text, re.MULTILINE)
    pairs = re.findall(r"\((-?\d+), (-?\d+)\)", field[1])
    if [int(m) * 2.0 ** int(e) for m, e in pairs] != array.ravel().tolist():
        sys.exit(f"{name} differs")
print(f"{sum(array.size for array in arrays.values())} weights are the same")
