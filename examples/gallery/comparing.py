"""Compare two releases.

Two years: did the structure change, or is the difference noise?

`compare` reads two release files and no rows. The 95 % interval is for the angle
between the components without noise.

Figure: angle between the components of two years with intervals, and the true
angle.
"""

import numpy as np

from eigenveil import PrivatePCA, load_release

rng = np.random.default_rng(0)


def release_year(name, angle):
    turn = np.radians(angle)
    axis = np.array([np.cos(turn), np.sin(turn), 0, 0, 0, 0])
    noise = 0.5 * rng.normal(size=(20_000, 6))
    rows = np.outer(rng.normal(size=20_000), 1.5 * axis) + noise
    model = PrivatePCA(1, epsilon=1.0, bounds=(-8, 8)).fit(rows)
    model.release_.save(f"{name}.npz")


release_year("2024", 0)
release_year("2025", 35)
release_year("2026", 35)

found = {}
for earlier, later in (("2024", "2025"), ("2025", "2026")):
    one = load_release(f"{later}.npz").compare(load_release(f"{earlier}.npz"))
    found[f"{earlier} to {later}"] = one
    low, high = one.angle_interval
    print(f"{earlier} to {later}: {one.angle:.0f}° ({low:.0f}° to {high:.0f}°)")

# Figure
import matplotlib.pyplot as plt

from eigenveil.report import plots

plt.style.use(plots.STYLE)
figure, axes = plt.subplots(figsize=(4.2, 2.8))
for place, (one, true) in enumerate(zip(found.values(), (35, 0), strict=True)):
    labels = [None] * 3 if place else ["95 % interval", "released", "true"]
    lines = {"color": "C0", "linewidth": 2, "label": labels[0]}
    axes.hlines(place, *one.angle_interval, **lines)
    axes.plot(one.angle, place, "oC0", label=labels[1])
    axes.plot(true, place, "oC1", mfc="none", ms=9, label=labels[2])
axes.set_yticks([0, 1], [name.replace(" ", "\n") for name in found])
axes.set(xlabel="angle between the components, degrees", ylabel="years")
axes.set(ylim=(-0.6, 1.6), xlim=(-3, 92))
axes.legend(loc="center right")
figure.savefig("comparing.png", dpi=200)
