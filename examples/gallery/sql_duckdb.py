"""SQL through DuckDB: one row a customer.

A query brings the purchases of each customer into one row, and the fit takes its
result as it streams.

The unit of privacy is a row. A query that groups by customer makes the customer the
unit, and what it cuts off (`least`) are public ranges: nobody can be beyond them.
The relation goes to `fit` as it is and never becomes a frame.

Figure: a heat map of the loadings of four columns on two private components; what
may be 0 is grey.
"""

import duckdb
import numpy as np
import pandas as pd

from eigenveil import PrivatePCA
from eigenveil.report import plots

SEED = 0  # for this page: a seeded release promises nothing, so leave it out

rng = np.random.default_rng(0)
customer = np.repeat(np.arange(20_000), rng.poisson(6, size=20_000) + 1)
budget = rng.gamma(4.0, size=20_000)[customer]
purchases = pd.DataFrame({"customer": customer, "rent": 40 * np.sqrt(budget)})
purchases["food"] = rng.exponential(6 * budget)
purchases["travel"] = rng.exponential(1 + budget**1.5)

shop = duckdb.connect()
shop.register("purchases", purchases)
per_customer = shop.sql(
    """
    SELECT least(count(*), 40)    AS visits,
           least(avg(food), 100)  AS food,
           least(avg(travel), 60) AS travel,
           least(avg(rent), 200)  AS rent
    FROM purchases GROUP BY customer
    """
)
ends = {
    "visits": (0, 40),
    "food": (0, 100),
    "travel": (0, 60),
    "rent": (0, 200),
}  # of the query
asked = {"epsilon": 1.0, "bounds": ends, "standardize": True, "random_state": SEED}
pca = PrivatePCA(2, **asked).fit(per_customer)
print(pca.guarantee_)
print("customers:", pca.n_samples_)
loadings = pd.DataFrame(pca.components_, columns=pca.feature_names_in_)
print(loadings.round(2).to_string(index=False))

# The purchases are made up, so the truth may stand beside the release.
truth = np.linalg.eigvalsh(np.corrcoef(per_customer.df().T))[:1:-1] / 4
shares = pca.explained_variance_ratio_interval_
for (low, high), exact in zip(shares, truth, strict=True):
    told = f"{low:.3f} to {high:.3f} (95 % interval)"
    print(f"share of the variance: {told}, without privacy {exact:.3f}")

figure = plots.loadings(pca.release_)
figure.savefig("sql_duckdb.png")
