# Private PCA from R by reticulate: fit, read estimates and intervals into data frames, plot.
# Rscript pca.R FOLDER, with EIGENVEIL_PYTHON naming the Python that eigenveil is installed in.
library(reticulate)

use_python(Sys.getenv("EIGENVEIL_PYTHON"), required = TRUE)
folder <- commandArgs(trailingOnly = TRUE)[1]
# Results stay Python objects until they are asked for: reticulate below 1.37 cannot convert arrays of NumPy 2.
eigenveil <- import("eigenveil", convert = FALSE)
as_r <- function(array) py_to_r(array$tolist())
as_matrix <- function(array) do.call(rbind, lapply(as_r(array), unlist))

# A table as a file: R's data frames need not be converted either.
table <- file.path(folder, "flowers.csv")
write.csv(iris[sample(rep(1:150, 40)), 1:4], table, row.names = FALSE)

model <- eigenveil$PrivatePCA(2L, epsilon = 2, bounds = tuple(0, 8))$fit(table)
names <- unlist(as_r(model$feature_names_in_))

loadings <- data.frame(feature = names, t(as_matrix(model$components_)))
colnames(loadings)[-1] <- c("PC1", "PC2")
interval <- as_matrix(model$explained_variance_interval_)
variance <- data.frame(
  component = c("PC1", "PC2"),
  variance = unlist(as_r(model$explained_variance_)),
  low = interval[, 1],
  high = interval[, 2],
  above_noise = unlist(as_r(model$above_noise_))
)
print(loadings)
print(variance)
cat(as.character(py_str(model$guarantee_)), "\n")

write.csv(loadings, file.path(folder, "loadings.csv"), row.names = FALSE)
write.csv(variance, file.path(folder, "variance.csv"), row.names = FALSE)
pdf(file.path(folder, "pca.pdf"), width = 6, height = 4)
places <- barplot(variance$variance, names.arg = variance$component, ylim = c(0, max(variance$high)), ylab = "variance")
arrows(places, variance$low, places, variance$high, angle = 90, code = 3, length = 0.05)
invisible(dev.off())
