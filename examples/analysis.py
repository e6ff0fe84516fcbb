"""analysis.py - what an agent does with a table: load it, group it, cluster it, save what it found.

    bailey run --template data --file examples/iris.csv --out output examples/analysis.py
"""
import os

import matplotlib.pyplot as plt
import polars as pl
import seaborn as sns
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

MEASURES = ["sepal_length", "sepal_width", "petal_length", "petal_width"]

flowers = pl.read_csv("iris.csv")
print("%d flowers, %d species" % (flowers.height, flowers["species"].n_unique()))

means = flowers.group_by("species").agg(pl.len().alias("count"), pl.col(MEASURES).mean().round(2))
means = means.sort("species")
with pl.Config(tbl_formatting="ASCII_MARKDOWN", tbl_hide_dataframe_shape=True,
               tbl_hide_column_data_types=True, tbl_width_chars=100):
    print(means)

scaled = StandardScaler().fit_transform(flowers.select(MEASURES).to_numpy())
found = KMeans(n_clusters=3, n_init=10, random_state=0).fit_predict(scaled)
flowers = flowers.with_columns(pl.Series("cluster", found))
print("three clusters agree with the species to %.2f (1 is the same, 0 is chance)"
      % adjusted_rand_score(flowers["species"], found))

os.makedirs("/tmp/output", exist_ok=True)
means.write_csv("/tmp/output/means.csv")
flowers.write_csv("/tmp/output/clusters.csv")
figure, axes = plt.subplots(figsize=(7, 5))
sns.scatterplot(x=flowers["petal_length"].to_numpy(), y=flowers["petal_width"].to_numpy(),
                hue=flowers["cluster"].to_list(), style=flowers["species"].to_list(),
                palette="deep", ax=axes)
axes.set(title="Irises: species and clusters", xlabel="petal length (cm)", ylabel="petal width (cm)")
figure.savefig("/tmp/output/clusters.png", dpi=120)
print("saved: " + ", ".join(sorted(os.listdir("/tmp/output"))))
