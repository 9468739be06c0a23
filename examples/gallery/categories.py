"""Numbers, categories and missing values.

A schema declares public ranges, public categories and fill values.

Which categories can occur is public; which do occur is private. Each category
becomes a column of 0 and 1.

Figure: heat map of private correlations; cells whose interval has 0 are grey.
"""

import numpy as np
import pandas as pd

from eigenveil import PrivateCovariance, Schema
from eigenveil.tables.schema import Column

rng = np.random.default_rng(0)
n = 20_000
age = rng.integers(18, 95, n)
smoker = rng.random(n) < 0.45 - 0.004 * age
mass = rng.normal(62 + 0.25 * age - 4 * smoker, 11)
people = pd.DataFrame({"age": age, "mass": mass})
people.loc[rng.random(n) < 0.1, "mass"] = np.nan
people["smoker"] = np.where(smoker, "yes", "no")
people["distance"] = rng.uniform(0, 60, n)  # independent of all other columns
ward = np.where(smoker, "lung", rng.choice(["lung", "other"], n))
people["ward"] = np.where(age > 70, "geriatric", ward)

columns = (
    Column("age", range=(0, 120), unit="years"),
    Column("mass", range=(0, 200), unit="kg", missing="middle"),
    Column("smoker", "boolean"),
    Column("distance", range=(0, 100), unit="km"),
    Column("ward", "category", categories=("geriatric", "lung", "other")),
)
schema = Schema(columns, declared_by="Registry office")
model = PrivateCovariance(epsilon=1.0, schema=schema).fit(people)
print(model.guarantee_)

first, second = (schema.feature_names.index(name) for name in ("age", "smoker"))
low, high = model.release_.intervals.correlation()[first, second]
print(f"correlation of age and smoking: {low:.3f} to {high:.3f}")
print(f"without privacy: {np.corrcoef(age, smoker)[0, 1]:.3f}")

# Figure
from eigenveil.report import plots

figure = plots.correlations(model.release_)
figure.set_size_inches(4.4, 3.4)
figure.savefig("categories.png", dpi=200)
