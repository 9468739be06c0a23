"""Files larger than memory.

A fit reads a file in batches. Memory does not grow with the number of rows.

The example measures the peak memory of the process while it reads files of 20 to
320 MB. `benchmarks/out_of_core.py` reads 2.5 GB with a limit of 256 MB.

Figure: growth of peak memory, which stays flat, against the size of the file.
"""

import resource
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eigenveil import PrivatePCA

NAMES = [f"x{i}" for i in range(20)]
rng = np.random.default_rng(0)


def write(path, batches):
    columns = pa.schema([(name, pa.float64()) for name in NAMES])
    with pq.ParquetWriter(path, columns) as file:
        for _ in range(batches):
            rows = rng.normal(size=(50_000, 20)) * np.linspace(3, 0.5, 20)
            file.write_table(pa.table(dict(zip(NAMES, rows.T, strict=True))))


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


sizes, growth = [], []
for batches in (2, 8, 32):
    write("rows.parquet", batches)
    before = peak()
    model = PrivatePCA(2, epsilon=1.0, bounds=(-15, 15)).fit("rows.parquet")
    sizes.append(Path("rows.parquet").stat().st_size / 1e6)
    growth.append(peak() - before)
    print(f"file {sizes[-1]:3.0f} MB: peak memory grew by {growth[-1]:.0f} MB")
print(model.guarantee_)

# Figure
import matplotlib.pyplot as plt

from eigenveil.report import plots

plt.style.use(plots.STYLE)
figure, axes = plt.subplots(figsize=(4.2, 2.8))
axes.plot(sizes, np.cumsum(growth), "o-", label="fit from the file")
axes.plot(sizes, sizes, "--", color="C1", label="size of the file")
axes.set(xlabel="size of the file, MB", ylabel="growth of peak memory, MB")
axes.set_ylim(bottom=0)
axes.legend()
figure.savefig("larger_than_memory.png", dpi=200)
