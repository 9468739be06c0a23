"""Rows on Spark.

Rows stay on the executors: each partition becomes one exact sum of integers, and
the driver gets one small matrix.

However the rows are partitioned, and whichever task is retried, the sums have the
same bits as in memory, and so a release from the same seed is the same to the last
bit. Needs `eigenveil[spark]` and Java 17.

Figure: private variances along three components with 95 % intervals, the noise
level, and the variances without privacy.
"""

import os
import sys

import matplotlib.pyplot as plt
import numpy as np
from pyspark.sql import SparkSession

from eigenveil import PrivatePCA
from eigenveil.report import plots

SEED = 0  # for this page: a seeded release promises nothing, so leave it out

# Workers need the packages of this Python.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
settings = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": 2,
    "spark.log.level": "OFF",
}
spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()

rng = np.random.default_rng(0)
turn = np.linalg.qr(rng.normal(size=(6, 6)))[0]
rows = rng.normal(size=(5_000, 6)) * [3, 2, 1.2, 0.6, 0.3, 0.3] @ turn
names = ["age", "pulse", "mass", "height", "dose", "days"]
people = spark.createDataFrame(rows.tolist(), names)

model = PrivatePCA(3, epsilon=1.0, norm_bound=12.0, random_state=SEED)
release = model.fit(people.repartition(3)).release_
print(release.guarantee)
for where, table in {
    "by 5 partitions": people.repartition(5),
    "in memory": rows,
}.items():
    again = model.fit(table).release_
    same = (again.components == release.components).all()
    print(f"the same bits {where}: {same}")
spark.stop()

plt.style.use(plots.STYLE)
figure = plots.scree(release, n_components=3)
# The rows are made up, so the truth may be shown.
truth = np.linalg.eigvalsh(np.cov(rows.T))[:2:-1]
rings = {"mfc": "none", "ms": 8, "label": "without privacy"}
figure.axes[0].plot([1, 2, 3], truth, "DC7", **rings)
figure.axes[0].legend()
figure.savefig("spark.png")
