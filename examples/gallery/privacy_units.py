"""Persons with many rows.

Two thousand patients with 1 to 40 visits each: the promise is made to a patient
with all of their visits.

A promise about one row is worth little to somebody with forty: for all of them
together epsilon is forty times as large. Name the column that tells persons apart,
and the unit is the person. Every person counts once, by the average over their
visits, and the number of visits is told nowhere.

Figure: left, loadings of the first private component with intervals beside those
without privacy; right, the epsilon of a person against the number of their rows,
flat where the promise is made to persons.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from eigenveil import PrivatePCA
from eigenveil.report import plots

SEED = 0  # for this page: a seeded release promises nothing, so leave it out

rng = np.random.default_rng(0)
visits_of = rng.geometric(0.15, size=2_000).clip(1, 40)
patient = np.repeat(np.arange(2_000), visits_of)
illness = rng.normal(size=2_000)[
    patient
]  # stays the same over the visits of a patient
rows = np.outer(illness, [1.5, 1.2, -0.9, 0.3]) + rng.normal(size=(patient.size, 4))
visits = pd.DataFrame(rows, columns=["pulse", "fever", "weight", "sleep"])
visits["patient"] = patient

asked = {"privacy_unit": "patient", "bounds": (-8, 8), "random_state": SEED}
pca = PrivatePCA(1, epsilon=1.0, **asked).fit(visits)
print(pca.guarantee_)
print("units:", pca.n_samples_)

# The truth, in which every patient counts once: the rows are made up.
truth = np.linalg.eigh(np.cov(rows.T, aweights=1 / visits_of[patient]))[1][:, -1]
truth *= np.sign(truth @ pca.components_[0])
print(f"cosine to the component without privacy: {truth @ pca.components_[0]:.3f}")

plt.style.use(plots.STYLE)
figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.8))
error = 1.96 * pca.release_.spectrum.loading_errors().standard_errors[0]
dots = {"fmt": "o", "capsize": 3, "label": "private, epsilon 1"}
rings = {"mfc": "white", "ms": 7, "zorder": 0, "label": "without privacy"}
left.errorbar(range(4), pca.components_[0], error, **dots)
left.plot(range(4), truth, "oC1", **rings)
left.set_xticks(range(4), pca.feature_names_in_)
left.set(xlabel="measurement", ylabel="loading on the first component")
left.legend()
most = np.arange(1, 41)
right.plot(most, 1.0 * most, color="C1", label="had the promise been made to rows")
right.plot(most, np.ones(40), color="C0", label="made to persons")
right.set(xlabel="visits of a patient", ylabel="epsilon for all visits together")
right.legend()
figure.savefig("privacy_units.png")
