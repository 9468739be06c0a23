"""Numbers, categories and missing values.

A schema says what is public of each column: ranges, categories, and what stands for
a missing value.

Which categories occur in a column is private; which can occur is often public. Each
becomes a column of 0 and 1, and one categorical column adds at most 1 to the
squared length of a row, however many categories it has. Correlations that may be 0,
by their 95 % intervals, have no colour.

Figure: a heat map of the private correlations of age, mass, smoking, distance and
ward; cells that may be 0 are grey.
"""

import numpy as np
import pandas as pd

from eigenveil import PrivateCovariance, Schema
from eigenveil.report import plots
from eigenveil.tables.schema import Column

SEED = 0  # for this page: a seeded release promises nothing, so leave it out

rng = np.random.default_rng(0)
n = 20_000
age = rng.integers(18, 95, n)
smoker = rng.random(n) < 0.45 - 0.004 * age
mass = rng.normal(62 + 0.25 * age - 4 * smoker, 11)
people = pd.DataFrame({"age": age, "mass": mass})
people.loc[rng.random(n) < 0.1, "mass"] = np.nan
people["smoker"] = np.where(smoker, "yes", "no")
# The distance to the clinic has to do with nothing else.
people["distance"] = rng.uniform(0, 60, n)
elsewhere = np.where(smoker, "lung", rng.choice(["lung", "other"], n))
people["ward"] = np.where(age > 70, "geriatric", elsewhere)

schema = Schema(
    (
        Column("age", range=(0, 120), unit="years"),
        Column("mass", range=(0, 200), unit="kg", missing="middle"),
        Column("smoker", "boolean"),
        Column("distance", range=(0, 100), unit="km"),
        Column("ward", "category", categories=("geriatric", "lung", "other")),
    ),
    declared_by="Registry office",
)
model = PrivateCovariance(epsilon=1.0, schema=schema, random_state=SEED).fit(people)
print(model.guarantee_)

first, second = (schema.feature_names.index(name) for name in ("age", "smoker"))
low, high = model.release_.correlation_interval()[first, second]
print(f"age and smoking correlate by {low:.3f} to {high:.3f} (95 % interval)")
truth = np.corrcoef(age, smoker)[0, 1]  # the rows are made up
print(f"without privacy: {truth:.3f}")

figure = plots.correlations(model.release_)
figure.savefig("categories.png")
