"""Files larger than memory.

A fit reads a file in batches: memory does not grow with the rows.

Rows become exact integers batch by batch and add up to one small matrix, so a file
of any size takes the memory of a few batches, and gives the same bits as rows in
memory would. Here the peak of the whole process is measured while files of 20 to
320 MB are read, on the machine that made this page. `benchmarks/out_of_core.py`
reads 2.5 GB under a hard limit of 256 MB.

Figure: growth of the peak memory against the size of the file, flat, beside the
line of reading the file whole.
"""

import resource
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eigenveil import PrivatePCA
from eigenveil.report import plots

SEED = 0  # for this page: a seeded release promises nothing, so leave it out
NAMES = [f"x{i}" for i in range(20)]
rng = np.random.default_rng(0)


def write(path, batches):
    """Write rows of 20 features, 50,000 at a time."""
    columns = pa.schema([(name, pa.float64()) for name in NAMES])
    with pq.ParquetWriter(path, columns) as file:
        for _ in range(batches):
            rows = rng.normal(size=(50_000, 20)) * np.linspace(3, 0.5, 20)
            file.write_table(pa.table(dict(zip(NAMES, rows.T, strict=True))))


def peak():
    """Return the most memory that this process has had so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


sizes, growth = [], []
model = PrivatePCA(2, epsilon=1.0, bounds=(-15, 15), random_state=SEED)
for batches in (2, 8, 32):
    write("rows.parquet", batches)
    before = peak()
    model.fit("rows.parquet")
    sizes.append(Path("rows.parquet").stat().st_size / 1e6)
    growth.append(peak() - before)
    rows = f"{50_000 * batches:9,} rows"
    print(f"{rows}, {sizes[-1]:4.0f} MB: the peak grew by {growth[-1]:.0f} MB")
print(model.guarantee_)

plt.style.use(plots.STYLE)
figure, axes = plt.subplots()
axes.plot(sizes, np.cumsum(growth), "o-", label="a fit from the file")
axes.plot(sizes, sizes, "--", color="C1", label="as much as the file has")
axes.set(xlabel="size of the file, MB", ylabel="growth of the peak memory, MB")
axes.set_ylim(bottom=0)
axes.legend()
figure.savefig("larger_than_memory.png")
