"""SQL through DuckDB.

A query reduces the purchases of each customer to one row. The fit reads its result.

The privacy unit is one row of the query: one customer. `least` enforces the public
ranges.

Figure: heat map of loadings on two private components; loadings whose interval has
0 are grey.
"""

import duckdb
import numpy as np
import pandas as pd

from eigenveil import PrivatePCA

rng = np.random.default_rng(0)
customer = np.repeat(np.arange(20_000), rng.poisson(6, size=20_000) + 1)
income = rng.gamma(4.0, size=20_000)[customer]
purchases = pd.DataFrame({"customer": customer, "rent": 40 * np.sqrt(income)})
purchases["food"] = rng.exponential(6 * income)
purchases["travel"] = rng.exponential(1 + income**1.5)

shop = duckdb.connect()
shop.register("purchases", purchases)
per_customer = shop.sql(
    """
    SELECT least(count(*), 40) AS visits, least(avg(food), 100) AS food,
           least(avg(travel), 60) AS travel, least(avg(rent), 200) AS rent
    FROM purchases GROUP BY customer
    """
)
bounds = {"visits": (0, 40), "food": (0, 100), "travel": (0, 60), "rent": (0, 200)}
model = PrivatePCA(2, epsilon=1.0, bounds=bounds, standardize=True)
pca = model.fit(per_customer)
print(pca.guarantee_)
print("customers:", pca.n_samples_)

true = np.linalg.eigvalsh(np.corrcoef(per_customer.df().T))[:1:-1] / 4
for (low, high), exact in zip(
    pca.explained_variance_ratio_interval_, true, strict=True
):
    print(f"explained variance: {low:.3f} to {high:.3f}, true {exact:.3f}")

# Figure
from eigenveil.report import plots

figure = plots.loadings(pca.release_)
figure.set_size_inches(4.2, 2.8)
figure.savefig("sql_duckdb.png", dpi=200)
