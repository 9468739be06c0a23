"""Several rows per person.

2,000 patients with 1 to 40 visits each. The guarantee is for a patient with all
visits.

With a guarantee for one row, epsilon for 40 visits of one patient is 40 times as
large. `privacy_unit` names the column that identifies patients. Every patient then
has the same weight.

Figure: loadings of the private component with 95 % intervals, and those without
privacy.
"""

import numpy as np
import pandas as pd

from eigenveil import PrivatePCA

rng = np.random.default_rng(0)
visits_of = rng.geometric(0.15, size=2_000).clip(1, 40)
patient = np.repeat(np.arange(2_000), visits_of)
illness = rng.normal(size=2_000)[patient]
rows = np.outer(illness, [1.5, 1.2, -0.9, 0.3]) + rng.normal(size=(patient.size, 4))
visits = pd.DataFrame(rows, columns=["pulse", "fever", "weight", "sleep"])
visits["patient"] = patient

model = PrivatePCA(1, epsilon=1.0, privacy_unit="patient", bounds=(-8, 8))
pca = model.fit(visits)
print(pca.guarantee_)
print("privacy units:", pca.n_samples_)

weights = 1 / visits_of[patient]  # every patient counts once
true = np.linalg.eigh(np.cov(rows.T, aweights=weights))[1][:, -1]
true *= np.sign(true @ pca.components_[0])
print(f"cosine to the component without privacy: {true @ pca.components_[0]:.3f}")

# Figure
import matplotlib.pyplot as plt

from eigenveil.report import plots

plt.style.use(plots.STYLE)
figure, axes = plt.subplots(figsize=(4.2, 2.8))
error = 1.96 * pca.release_.spectrum.loading_errors().standard_errors[0]
dots = {"fmt": "o", "capsize": 3, "label": "private, ε = 1"}
axes.errorbar(range(4), pca.components_[0], error, **dots)
circles = {"mfc": "white", "ms": 7, "zorder": 0, "label": "without privacy"}
axes.plot(range(4), true, "oC1", **circles)
axes.set_xticks(range(4), pca.feature_names_in_)
axes.set(xlabel="measurement", ylabel="loading on component 1")
axes.legend()
figure.savefig("privacy_units.png", dpi=200)
