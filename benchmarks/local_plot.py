"""Draw what `benchmarks/local.py error` measured: error against epsilon, and error against bytes.

python benchmarks/local_plot.py error.json docs/images
"""

import json
import sys
from pathlib import Path

from eigenveil.report.plots import BLUE, BROWN, GREEN, INK, SILVER, new_figure, styled

STYLES = {"double_cap": (BLUE, "o"), "one_bit": (GREEN, "s"), "gaussian": (BROWN, "^"), "gaussian_paper": (SILVER, "v")}
# Labels sit above their points, but for the one that another point is above of.
OFFSETS = {"gaussian": -18}


@styled()
def main() -> None:
    results, folder = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    for data in dict.fromkeys(result["data"] for result in results):
        chosen = [result for result in results if result["data"] == data]
        figure = new_figure(9.0, 3.8)
        left, right = figure.subplots(1, 2, sharey=True)
        for result in chosen:
            colour, marker = STYLES[result["mechanism"]]
            left.plot(result["epsilons"], result["errors"], color=colour, marker=marker, label=result["mechanism"])
            at_one = result["errors"][result["epsilons"].index(1.0)]
            right.scatter(result["bytes"], at_one, color=colour, marker=marker, s=60, zorder=3)
            right.annotate(
                result["mechanism"],
                (result["bytes"], at_one),
                xytext=(0, OFFSETS.get(result["mechanism"], 8)),
                textcoords="offset points",
                ha="center",
            )
        for axes in (left, right):
            axes.axhline(chosen[0]["chance"], color=INK, linestyle=":", linewidth=1)
            axes.set_xscale("log")
            axes.set_yscale("log")
        left.text(chosen[0]["epsilons"][0], chosen[0]["chance"] * 1.05, "no information", fontsize=8)
        left.set_xticks(chosen[0]["epsilons"], [f"{epsilon:g}" for epsilon in chosen[0]["epsilons"]])
        left.minorticks_off()
        left.set(xlabel="ε of a report", ylabel="subspace error, k = 2")
        left.legend()
        right.margins(x=0.25)
        right.set_xlabel("bytes of a report (error at ε = 1)")
        figure.suptitle(f"{data}: {chosen[0]['n']:,} clients, d = {chosen[0]['d']}, Gaussian δ = 1e-6")
        folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(folder / f"local_{data}.png")


if __name__ == "__main__":
    main()
