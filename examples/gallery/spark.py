"""Spark.

Rows stay on the executors. The driver receives one exact sum for each partition.

The sums do not depend on the partitions, so the same seed gives the same release.
The seed is for this comparison only: a seeded release is not private. Needs
`eigenveil[spark]` and Java 17.

Figure: private variances of three components with 95 % intervals, noise level, true
variances.
"""

import os
import sys

import numpy as np
from pyspark.sql import SparkSession

from eigenveil import PrivatePCA

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
settings = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": 2,
    "spark.log.level": "OFF",
}
spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()

rng = np.random.default_rng(0)
rotation = np.linalg.qr(rng.normal(size=(6, 6)))[0]
rows = rng.normal(size=(5_000, 6)) * [3, 2, 1.2, 0.6, 0.3, 0.3] @ rotation
names = ["age", "pulse", "mass", "height", "dose", "days"]
people = spark.createDataFrame(rows.tolist(), names)

model = PrivatePCA(3, epsilon=1.0, norm_bound=12.0, random_state=0)
release = model.fit(people.repartition(3)).release_
print(release.guarantee)
for name, table in {"5 partitions": people.repartition(5), "array": rows}.items():
    same = (model.fit(table).release_.components == release.components).all()
    print(f"{name}: same bits: {same}")
spark.stop()

# Figure
import matplotlib.pyplot as plt

from eigenveil.report import plots

plt.style.use(plots.STYLE)
figure = plots.scree(release, n_components=3)
figure.set_size_inches(4.2, 2.8)
true = np.linalg.eigvalsh(np.cov(rows.T))[:2:-1]
diamonds = {"mfc": "none", "ms": 8, "label": "without privacy"}
figure.axes[0].plot([1, 2, 3], true, "DC7", **diamonds)
figure.axes[0].legend()
figure.savefig("spark.png", dpi=200)
