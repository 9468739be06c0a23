"""Two releases beside each other.

Last year and this year: did the structure change, or is it the noise?

`compare` reads two release files and no rows. It tells the angle between the
subspaces with a 95 % interval for what it would be without noise, and how far apart
the matrices are in standard deviations of the noise on both. Here the second year
was made with the first component turned by 35 degrees, and a third as a repetition
of the second.

Figure: the angle between the first components of two years with its 95 % interval,
beside the angle by which the years were made to differ.
"""

import matplotlib.pyplot as plt
import numpy as np

from eigenveil import PrivatePCA, load_release
from eigenveil.report import plots

rng = np.random.default_rng(0)


def make_year(name, angle, seed):
    """Release a made-up year whose first component is turned by so many degrees."""
    turn = np.radians(angle)
    axis = np.array([np.cos(turn), np.sin(turn), 0, 0, 0, 0])
    noise = 0.5 * rng.normal(size=(20_000, 6))
    rows = np.outer(rng.normal(size=20_000), 1.5 * axis) + noise
    # A seed for this page: a seeded release promises nothing, so leave it out.
    model = PrivatePCA(1, epsilon=1.0, bounds=(-8, 8), random_state=seed).fit(rows)
    model.release_.save(f"{name}.npz")


make_year("2024", 0, seed=0)
make_year("2025", 35, seed=1)
make_year("2026", 35, seed=2)

made = {("2024", "2025"): 35, ("2025", "2026"): 0}
plt.style.use(plots.STYLE)
figure, axes = plt.subplots(figsize=(6.4, 2.8))
for place, ((earlier, later), angle) in enumerate(made.items()):
    found = load_release(f"{later}.npz").compare(load_release(f"{earlier}.npz"))
    low, high = found.angle_interval
    told = f"{found.angle:.0f} degrees ({low:.0f} to {high:.0f})"
    print(f"{earlier} to {later}: {told},", end=" ")
    print(f"matrices {found.distance:.1f} standard deviations of the noise apart")
    labels = ["95 % interval", "as released", "as made"]
    labels = labels if place == 0 else [None] * 3
    axes.hlines(place, low, high, color="C0", linewidth=2, label=labels[0])
    axes.plot(found.angle, place, "oC0", label=labels[1])
    axes.plot(angle, place, "oC1", mfc="none", ms=9, label=labels[2])
axes.set_yticks([0, 1], ["2024 to 2025", "2025 to 2026"])
axes.set(xlabel="angle between the first components, degrees", ylabel="years")
axes.set(ylim=(-0.6, 1.6), xlim=(-3, 92))
axes.legend(loc="center right")
figure.savefig("comparing.png")
