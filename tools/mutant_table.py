"""The constants that `mutants.py` makes wrong: function or constant, expression in it, what replaces it, fast tests.

A name that ends in #2 means the second such expression there.

A mechanism that is added brings its constants here: its scale, its degrees and exponents, and where it asks for the adjacency.
"""

# ruff: noqa: E501  (a constant and what becomes of it are read on one line)
# fmt: off

SCALED = ("scaled",)
SWAPPED = ("adjacency is not Adjacency.REPLACE_ONE",)
SELF_SWAPPED = ("self.adjacency is not Adjacency.REPLACE_ONE",)

SENSITIVITY = "accounting/test_sensitivity.py::test_"
MECHANISMS = "mechanisms/test_constants.py::test_"
DRAWN = "mechanisms/test_draws.py::test_"
SAMPLED = "statistical/test_eigenvector_sampling.py::test_"
OUR_SAMPLING = (SAMPLED + "our_constants_are_those_of_the_proof",)
PUBLISHED_SAMPLING = (SAMPLED + "the_published_constants_are_those_of_the_paper",)
SAMPLING_COST = (SAMPLED + "a_whole_release_costs_what_it_is_given_and_not_much_less",)
POWER = "statistical/test_noisy_power.py::test_"
CAPS = "statistical/test_double_cap.py::test_"
CONSTANTS = (MECHANISMS + "laplace_and_frobenius_constants",)
GAUSSIAN = (MECHANISMS + "gaussian_constants",)
WISHART_DELTAS = (MECHANISMS + "wishart_deltas_are_the_divergences_of_the_scalar_mechanism",)
WISHART = (MECHANISMS + "the_wishart_calibration_is_met_and_the_release_is_positive_semidefinite",)
LAZY, DISCRETE, NORMAL = ((DRAWN + name,) for name in ("lazy_matrices", "discrete_entries_and_counts", "gaussian_entries"))
SUBSPACES, LOCAL, BITS = ((DRAWN + name,) for name in ("subspaces", "local_entries", "local_bits"))
ROOTS = "statistical/test_lazy_triangle.py::test_"
INTEGERS = "statistical/test_discrete.py::test_"
QUICK = (DRAWN + "quick_draws_have_the_sizes_of_their_distributions",)
BALANCED = (DRAWN + "the_smaller_trace_is_the_larger_times_a_uniform_to_the_power_of_one_over_p",)

TABLE = [
    # The sensitivities that all mechanisms share.
    ("accounting.sensitivity.frobenius_squared", "Fraction(2 if adjacency is Adjacency.REPLACE_ONE else 1)", ("scaled", "Fraction(1 if adjacency is Adjacency.REPLACE_ONE else 2)"), (SENSITIVITY + "frobenius",)),
    ("accounting.sensitivity.nuclear", "Fraction(2 if adjacency is Adjacency.REPLACE_ONE else 1)", ("scaled", "Fraction(1 if adjacency is Adjacency.REPLACE_ONE else 2)"), (SENSITIVITY + "nuclear",)),
    ("accounting.sensitivity.upper_triangle_l1_squared", "adjacency is Adjacency.REPLACE_ONE", SWAPPED, (SENSITIVITY + "upper_triangle_in_l1",)),
    ("accounting.sensitivity.upper_triangle_l1_squared", "Fraction(n_features * (n_features + 3), 2)", ("scaled", "Fraction(n_features * (n_features + 2), 2)", "Fraction(n_features * (n_features + 4), 2)"), CONSTANTS),
    ("accounting.sensitivity.upper_triangle_l1_squared", "Fraction(n_features + 1, 2) ** 2", ("scaled", "Fraction(n_features, 2) ** 2", "Fraction(n_features + 2, 2) ** 2", "Fraction(n_features + 1, 2)"), CONSTANTS),
    ("accounting.sensitivity.quadratic_form", "Fraction(1)", SCALED, (SENSITIVITY + "quadratic_form",)),
    ("accounting.sensitivity.sum_squared", "4 if adjacency is Adjacency.REPLACE_ONE else 1", ("scaled", "1 if adjacency is Adjacency.REPLACE_ONE else 4"), (SENSITIVITY + "sum_of_rows",)),
    # gaussian, mod_sulq
    ("accounting.calibration.gaussian_delta", "mu / 2 - epsilon / mu", SCALED, (MECHANISMS + "gaussian_delta_is_the_divergence",)),
    ("accounting.calibration.gaussian_delta", "-mu / 2 - epsilon / mu", SCALED, (MECHANISMS + "gaussian_delta_is_the_divergence",)),
    ("mechanisms.gaussian.Gaussian._scales", "square_root_above(change(self.adjacency)) / mu * (1 + 1e-12)", SCALED, GAUSSIAN),
    ("mechanisms.gaussian.Gaussian._scales", "scale / math.sqrt(2)", SCALED, GAUSSIAN),
    ("mechanisms.gaussian.Gaussian._scales", "math.sqrt(2 * math.log(1.25 / self.delta)) / self.epsilon", ("scaled", "math.sqrt(2 * math.log(1.0 / self.delta)) / self.epsilon"), GAUSSIAN),
    ("mechanisms.gaussian.GaussianNoise.noise", "beside * grid", SCALED, NORMAL),
    ("mechanisms.gaussian.GaussianNoise.noise", "diagonal * grid", SCALED, NORMAL),
    ("mechanisms.gaussian.Gaussian.draw", "self.noise_scale() * grid", SCALED, NORMAL),
    ("mechanisms.gaussian.GaussianNoise.count_noise", "grid * self.count_sd", SCALED, NORMAL),
    ("mechanisms.gaussian.GaussianNoise.count_sd", "1 / (self.total_mu() * math.sqrt(self.count_share))", SCALED, NORMAL),
    ("mechanisms.gaussian.GaussianNoise.total_mu", "square_root_above(frobenius_squared(self.adjacency)) / self.noise_scale()", SCALED, NORMAL),
    ("mechanisms.gaussian.GaussianNoise._promise", "exact(mu) ** 2 / 2", ("scaled", "exact(mu) / 2", "exact(mu) ** 3 / 2"), NORMAL),
    ("mechanisms.gaussian.Gaussian._more", "self.adjacency is Adjacency.REPLACE_ONE", SELF_SWAPPED, ("statistical/test_trace.py::test_every_number_that_leaves_is_counted",)),
    ("mechanisms.gaussian.Gaussian.draw", "self.adjacency is Adjacency.REPLACE_ONE", SELF_SWAPPED, ("statistical/test_trace.py::test_the_number_more_has_the_noise_of_the_diagonal",)),
    ("mechanisms.mod_sulq.ModSulq._scales", "(d + 1) / self.epsilon * math.sqrt(2 * max(logarithm, 0.0)) + 1 / math.sqrt(self.epsilon)", ("scaled", "d / self.epsilon * math.sqrt(2 * max(logarithm, 0.0)) + 1 / math.sqrt(self.epsilon)", "(d + 2) / self.epsilon * math.sqrt(2 * max(logarithm, 0.0)) + 1 / math.sqrt(self.epsilon)"), (MECHANISMS + "mod_sulq_constants",)),
    ("mechanisms.mod_sulq.ModSulq._scales", "(linear + math.sqrt(linear**2 + 4 * self.epsilon)) / (2 * self.epsilon)", ("scaled", "(linear + math.sqrt(linear**2 + self.epsilon)) / (2 * self.epsilon)"), (MECHANISMS + "mod_sulq_constants",)),
    ("mechanisms.mod_sulq.ModSulq._scales", "d * d + d", ("scaled", "d * d"), (MECHANISMS + "mod_sulq_constants",)),
    ("mechanisms.budget._scale", "gaussian_mu(portion.epsilon, portion.delta * (1 - DISCRETE_SHARE)) * math.sqrt(portion.share)", SCALED, ("mechanisms/test_budget.py::test_the_noise_of_a_portion_is_that_of_its_share_of_mu_squared",)),
    # A mean that is measured first
    ("gate.noisy_sum", "sum_squared(Adjacency.REPLACE_ONE) * 16**sums.bound.bits", ("scaled", "sum_squared(Adjacency.REPLACE_ONE) * 4**sums.bound.bits"), ("statistical/test_stages.py::test_the_noise_of_a_sum_is_that_of_its_portion",)),
    ("mechanisms.budget.averaged", "1 / (weight**2 / first + (1 - weight) ** 2 / second)", ("first + second", "Fraction(4, 5) / (weight**2 / first + (1 - weight) ** 2 / second)", "1 / (weight / first + (1 - weight) / second)"), ("mechanisms/test_budget.py::test_averages_have_room_for_as_many_rows_as_stages_take_and_tell_their_own_noise",)),
    ("estimators.split.Split.one_mean_suffices", "2 * math.sqrt(mechanism.n_features)", ("scaled", "2 * mechanism.n_features"), ("estimators/test_stages.py::test_one_mean_does_where_its_noise_leaves_a_tenth_of_the_noise_edge",)),
    ("estimators.split.SMALL_ERROR", "1 / 10", SCALED, ("estimators/test_stages.py::test_one_mean_does_where_its_noise_leaves_a_tenth_of_the_noise_edge",)),
    ("estimators.fit.Fit._bounded", "self.route.split.residual_norm / NORM_SEARCHES", ("scaled", "self.route.split.residual_norm / USUAL_ROUNDS"), ("mechanisms/test_budget.py::test_every_search_and_every_mean_has_its_own_part",)),
    ("estimators.fit.Fit._subtracted", "self.route.split.mean / USUAL_ROUNDS", SCALED, ("mechanisms/test_budget.py::test_every_search_and_every_mean_has_its_own_part",)),
    ("moments.sums.SumsByNorm.within", "np.floor(np.ldexp(_NORMS / norm, self.bound.bits))", SCALED, ("moments/test_sums.py::test_the_sum_is_that_of_the_definition",)),
    ("moments.sums.SumsByNorm.within", "2**self.bound.bits", SCALED, ("moments/test_sums.py::test_no_row_is_longer_than_the_bound_whatever_it_is",)),
    ("moments.sums.SumsByNorm._candidates", "2.0**self.bound.bits * (scale / _NORMS[:, None])", SCALED, ("moments/test_sums.py::test_the_sum_is_that_of_the_definition",)),
    # Private counts and choices
    ("mechanisms.base.CentralMechanism._count_scale", "1 / (exact(self.epsilon) - self.matrix_epsilon)", SCALED, DISCRETE),
    ("mechanisms.base.CentralMechanism.matrix_epsilon", "exact(self.epsilon) * (1 - self.count_share)", SCALED, DISCRETE),
    ("mechanisms.choices.noise_scale", "2 / epsilon", SCALED, ("privacy/test_selection.py::test_the_scale_is_two_over_epsilon",)),
    # laplace, frobenius
    ("mechanisms.laplace.Laplace._scale_above", "2 * self.n_features / self.matrix_epsilon", ("scaled", "2 * (self.n_features + 1) / self.matrix_epsilon", "(2 * self.n_features - 1) / self.matrix_epsilon"), CONSTANTS),
    ("mechanisms.laplace.Laplace._scale_above", "self._sensitivity() / self.matrix_epsilon", SCALED, CONSTANTS),
    ("mechanisms.laplace.Laplace.guarantee", "self._sensitivity() / Fraction(self.noise_scale())", SCALED, CONSTANTS),
    ("mechanisms.laplace.Laplace.noise", "self.noise_scale() * grid", SCALED, DISCRETE),
    ("mechanisms.frobenius.Frobenius.noise_scale", "square_root_above(frobenius_squared(self.adjacency) / self.matrix_epsilon**2)", ("scaled", "square_root_above(frobenius_squared(self.adjacency) / self.matrix_epsilon)", "square_root_above(frobenius_squared(self.adjacency) / self.matrix_epsilon**3)"), LAZY),
    ("mechanisms.frobenius.Frobenius.noise_scale", "2 * scale", SCALED, LAZY),
    ("mechanisms.frobenius.Frobenius.guarantee", "self.matrix_epsilon / 2", SCALED, CONSTANTS),
    ("mechanisms.frobenius.Frobenius.lazy_noise", "Fraction(self.noise_scale()) * unit", SCALED, LAZY),
    ("mechanisms.frobenius.Frobenius.noise", "d * (d + 1) / 2", ("scaled", "d * (d + 1) / 2 + 1", "d * (d + 1) / 2 - 1"), QUICK),
    ("sampling.wishart.LazyFrobenius.__init__", "(first + second) / (2 * math.sqrt(first))", ("scaled", "(first + second) / 2"), ("statistical/test_exact_noise.py::test_the_radius_of_frobenius_is_gamma",)),
    # matrix_laplace
    ("mechanisms.matrix_laplace.MatrixLaplace._scale", "sensitivity / (2 * self.matrix_epsilon)", SCALED, LAZY),
    ("mechanisms.matrix_laplace.MatrixLaplace._scale", "1 if self.balanced else nuclear(self.adjacency)", ("nuclear(self.adjacency)", "1"), LAZY),
    ("mechanisms.matrix_laplace.MatrixLaplace.balanced", "self.adjacency is Adjacency.REPLACE_ONE", SELF_SWAPPED, LAZY),
    ("mechanisms.matrix_laplace.MatrixLaplace.lazy_noise", "self._scale * unit", SCALED, LAZY),
    ("mechanisms.matrix_laplace.MatrixLaplace.lazy_noise", "d + 1", ("d", "d + 2"), LAZY),
    ("mechanisms.matrix_laplace.MatrixLaplace.noises", "d + 1", ("d", "d + 2"), QUICK),
    ("mechanisms.matrix_laplace.MatrixLaplace.noises", "1 / self._dimension", ("scaled", "2 / self._dimension"), QUICK),
    ("mechanisms.matrix_laplace.MatrixLaplace.off_diagonal_sd", "2 * self.noise_scale() * math.sqrt(degrees * (2 * p + 1) / (p + 2))", ("scaled", "2 * self.noise_scale() * math.sqrt(degrees * 2 * p / (p + 2))"), CONSTANTS),
    ("sampling.wishart.LazyBalancedDifference.__init__", "n_features + 1", ("n_features", "n_features + 2"), LAZY),
    ("sampling.wishart.LazyBalancedDifference._weights", "math.log(self._uniform.value / 2**self._uniform.bits) * 2 / (self.d * (self.d + 1))", ("scaled", "math.log(self._uniform.value / 2**self._uniform.bits) * 2 / (self.d * self.d)", "math.log(self._uniform.value / 2**self._uniform.bits) * 1 / (self.d * (self.d + 1))"), BALANCED),
    ("sampling.wishart.LazyBalancedDifference._shrinkage", "Fraction(2, self.d * (self.d + 1))", ("scaled", "Fraction(1, self.d * (self.d + 1))"), BALANCED),
    ("sampling.wishart.LazyChis._kept", "power * (log + (1 - ratio))", SCALED, (ROOTS + "roots_of_chi_squares_have_their_distribution",)),
    ("sampling.wishart.LazyChis._kept_exactly", "exponent * Interval.point(power)", ("exponent * Interval.point(Fraction(4 * power, 5))", "exponent * Interval.point(Fraction(5 * power, 4))"), (ROOTS + "coins_decided_exactly_fall_as_in_floats",)),
    ("sampling.wishart.LazyChis.__init__", "degrees - 1", ("degrees", "np.maximum(degrees - 2, 0)"), (ROOTS + "roots_of_chi_squares_have_their_distribution",)),
    ("sampling.wishart.LazyChis._kept", "np.maximum(power, 1)", SCALED, (ROOTS + "roots_of_chi_squares_have_their_distribution",)),
    ("sampling.wishart.lazy_triangles", "degrees - np.arange(columns)", ("np.maximum(degrees - 1 - np.arange(columns), 1)", "degrees + 1 - np.arange(columns)", "np.full(columns, degrees)"), (ROOTS + "triangles_have_the_distribution_of_a_matrix_of_normals",)),
    # wishart
    ("mechanisms.wishart.Wishart.degrees_and_scale", "self.n_features + 1.0", ("self.n_features + 2.0", "self.n_features + 0.0"), LAZY),
    ("mechanisms.wishart.Wishart.degrees_and_scale", "1.5 / float(self.matrix_epsilon)", SCALED, LAZY),
    ("mechanisms.wishart.Wishart.guarantee", "self.matrix_epsilon / 3", SCALED, (MECHANISMS + "the_published_wishart_betrays_a_unit_row",)),
    ("mechanisms.wishart.adding_delta", "nu / 2 - 1", ("scaled", "nu / 2", "nu / 2 - 2"), WISHART_DELTAS),
    ("mechanisms.wishart.adding_delta", "(epsilon + 0.5 / scale) / power", SCALED, WISHART_DELTAS),
    ("mechanisms.wishart.removing_delta", "0.5 / scale - epsilon", SCALED, WISHART_DELTAS),
    ("mechanisms.wishart.removing_delta", "nu / 2 - 1", ("scaled", "nu / 2", "nu / 2 - 2"), WISHART_DELTAS),
    ("mechanisms.wishart.wishart_delta", "adjacency is Adjacency.ADD_OR_REMOVE_ONE", ("adjacency is Adjacency.REPLACE_ONE",), (MECHANISMS + "the_design_point_of_the_wishart_mechanism",)),
    ("mechanisms.wishart.Wishart.degrees_and_scale", "safe_boundary(private, large, large * 1e-6)", SCALED, WISHART),
    ("mechanisms.wishart.Wishart.degrees_and_scale", "nu + self.n_features - 1", ("nu + self.n_features", "nu + self.n_features - 2"), WISHART),
    ("mechanisms.wishart.Wishart.lazy_noise", "round(degrees)", ("round(degrees) + 1", "round(degrees) - 1"), LAZY),
    ("mechanisms.wishart.Wishart.lazy_noise", "Fraction(scale) * unit", SCALED, LAZY),
    # ppca
    ("mechanisms.ppca.Ppca._exact_strength", "exact(self.epsilon) / (1 if one_sided else 2)", ("scaled", "exact(self.epsilon) / (2 if one_sided else 1)"), SUBSPACES),
    ("mechanisms.ppca.Ppca._exact_strength", "self.adjacency is Adjacency.ADD_OR_REMOVE_ONE", ("self.adjacency is Adjacency.REPLACE_ONE",), SUBSPACES),
    ("mechanisms.ppca.Ppca.draw", "self._exact_strength / grid", SCALED, SUBSPACES),
    ("mechanisms.ppca.Ppca.draw", "self.strength / grid", SCALED, SUBSPACES),
    # eigenvector_sampling
    ("mechanisms.eigenvector_sampling.EigenvectorSampling._eigenvalue_epsilon", "self.matrix_epsilon * exact(self.eigenvalue_share)", SCALED, OUR_SAMPLING),
    ("mechanisms.eigenvector_sampling.EigenvectorSampling._direction_epsilon", "self.matrix_epsilon - self._eigenvalue_epsilon", ("scaled", "2 * (self.matrix_epsilon - self._eigenvalue_epsilon)"), OUR_SAMPLING),
    ("mechanisms.eigenvector_sampling.EigenvectorSampling._cost", "self.n_components + 1", ("self.n_components", "self.n_components + 2"), OUR_SAMPLING),
    ("mechanisms.eigenvector_sampling.EigenvectorSampling._cost#2", "self.n_components", ("self.n_components + 1", "max(1, self.n_components - 1)"), OUR_SAMPLING),
    ("mechanisms.eigenvector_sampling.EigenvectorSampling._cost", "self.adjacency is Adjacency.REPLACE_ONE", SELF_SWAPPED, OUR_SAMPLING),
    ("mechanisms.eigenvector_sampling.EigenvectorSampling._exact_strength", "self._direction_epsilon / (self._cost * (1 + slack))", ("scaled", "2 * self._direction_epsilon / (self._cost * (1 + slack))"), OUR_SAMPLING),
    ("mechanisms.eigenvector_sampling.EigenvectorSampling.strength", "self._direction_epsilon / self._cost", SCALED, OUR_SAMPLING),
    ("mechanisms.eigenvector_sampling.EigenvectorSampling._draw_exactly", "self._exact_strength(grid) / grid", ("scaled", "2 * self._exact_strength(grid) / grid"), OUR_SAMPLING),
    ("mechanisms.eigenvector_sampling.EigenvectorSampling._draw_exactly", "sensitivity / self._eigenvalue_epsilon", ("scaled", "sensitivity / self._eigenvalue_epsilon / 2"), OUR_SAMPLING),
    ("mechanisms.eigenvector_sampling._noisy_eigenvalues", "2 / epsilon_0", ("scaled", "1 / epsilon_0", "epsilon_0 / 2"), PUBLISHED_SAMPLING),
    ("mechanisms.eigenvector_sampling.EigenvectorSampling._draw_as_published", "np.sqrt(1 / epsilon_0 + np.maximum(eigenvalues, 0.0))", ("np.ones(self.n_features)", "1 / epsilon_0 + np.maximum(eigenvalues, 0.0)", "np.sqrt(2 / epsilon_0 + np.maximum(eigenvalues, 0.0))"), PUBLISHED_SAMPLING),
    ("mechanisms.eigenvector_sampling.EigenvectorSampling._draw_as_published", "float(self._direction_epsilon) * weights / weights.sum()", SCALED, PUBLISHED_SAMPLING),
    ("mechanisms.eigenvector_sampling.EigenvectorSampling._draw_as_published", "shares / 4", ("scaled", "shares / 2"), PUBLISHED_SAMPLING),
    ("mechanisms.eigenvector_sampling.EigenvectorSampling.guarantee", "(max(others) + sum(others)) / 4", ("scaled", "sum(others) / 4"), (SAMPLED + "the_epsilons_of_the_paper_can_be_given",)),
    ("mechanisms.eigenvector_sampling.EigenvectorSampling.guarantee", "Fraction(1, 2)", SCALED, SAMPLING_COST),
    ("mechanisms.eigenvector_sampling.EigenvectorSampling.guarantee", "Fraction(1, 4)", SCALED, SAMPLING_COST),
    ("mechanisms.eigenvector_sampling.EigenvectorSampling.guarantee", "self.adjacency is Adjacency.REPLACE_ONE", SELF_SWAPPED, SAMPLING_COST),
    ("sampling.bingham.variances_sensitivity", "rows * (NORM_SQUARED + 2 * deviation) * grid", ("rows * (NORM_SQUARED + 2 * deviation) * grid * 4 // 5", "rows * (NORM_SQUARED + 2 * deviation) * grid * 5 // 4"), ("statistical/test_exact_eigenvectors.py::test_no_two_neighbours_are_farther_apart_than_the_sensitivity",)),
    # noisy_power
    ("accounting.sensitivity.image_squared", "min(n_columns, 2)", ("1", "n_columns"), (SENSITIVITY + "image", POWER + "the_noise_of_an_iteration_is_that_of_the_proof")),
    ("accounting.sensitivity.image_squared", "adjacency is Adjacency.REPLACE_ONE", SWAPPED, (SENSITIVITY + "image",)),
    ("mechanisms.noisy_power.NoisyPower._published_sigma", "math.sqrt(4 * self.n_components * self.iterations * math.log(1 / self.delta)) / self.epsilon", SCALED, (POWER + "the_noise_of_an_iteration_is_that_of_the_proof",)),
    ("mechanisms.noisy_power.NoisyPower._iteration_mu", "self.total_mu / math.sqrt(self.iterations)", ("scaled", "self.total_mu / self.iterations", "self.total_mu"), (POWER + "the_noise_of_an_iteration_is_that_of_the_proof",)),
    ("mechanisms.noisy_power.NoisyPower.total_mu", "square_root_above(change) / self._published_sigma", SCALED, (POWER + "the_noise_of_an_iteration_is_that_of_the_proof",)),
    ("mechanisms.noisy_power.image_sensitivity", "change * grid**2 * largest / 4**_DIRECTION_BITS", ("scaled", "change * grid * largest / 4**_DIRECTION_BITS"), (POWER + "no_two_neighbours_are_farther_apart_than_the_sensitivity",)),
    # Samplers
    ("sampling.bingham._log_acceptance", "dimension / 2", ("(dimension - 1) / 2", "(dimension + 1) / 2"), ("statistical/test_bingham.py::test_acceptance_is_a_probability_that_reaches_one", "statistical/test_bingham.py::test_mechanism")),
    ("sampling.discrete._GaussianCells.float_chance", "-0.5 * np.square(numbers / self._scale)", SCALED, (INTEGERS + "gaussian_draws_have_their_probabilities_whatever_their_cells_hold",)),
    ("sampling.discrete._GaussianCells.chance", "-((Fraction(number) / Fraction(self._scale)) ** 2) / 2", SCALED, (INTEGERS + "gaussian_coins_settled_in_decimals_fall_as_in_floats",)),
    ("sampling.discrete._GaussianCells.__init__", "4 - self._exponent", ("3 - self._exponent", "5 - self._exponent"), (INTEGERS + "every_integer_is_in_its_cell_and_within_the_bounds_of_its_coin",)),
    ("sampling.discrete._GaussianCells._tossed", "2.0**-_PREFIX", SCALED, (INTEGERS + "gaussian_draws_have_their_probabilities_whatever_their_cells_hold",)),
    ("sampling.discrete._GaussianCells._tossed", "_PREFIX + 64", ("_PREFIX + 65", "_PREFIX + 63"), (INTEGERS + "gaussian_coins_settled_in_decimals_fall_as_in_floats",)),
    ("sampling.discrete._GaussianCells.kept", "minus & (number == 0)", ("number < 0",), (INTEGERS + "gaussian_draws_have_their_probabilities_whatever_their_cells_hold",)),
    ("sampling.discrete._GaussianCells.kept", 'number < self._first.take(cell[edge], mode="clip")', ("number < 0",), (INTEGERS + "gaussian_draws_have_their_probabilities_whatever_their_cells_hold",)),
    ("sampling.lazy.RATIO", "HEIGHT / WEIGHTS", SCALED, (INTEGERS + "the_probability_in_floats_is_as_near_as_the_proof_says",)),
    ("sampling.lazy.settled_cell", "HEIGHT * 2 ** (beyond + 1)", ("HEIGHT * 2**beyond", "HEIGHT * 2 ** (beyond + 2)"), (INTEGERS + "a_cell_beyond_the_table_is_counted_by_heads",)),
    ("sampling.lazy._tables", "2**16 * c * height[k + 1]", ("2**16 * c * height[k]",), (INTEGERS + "every_integer_is_in_its_cell_and_within_the_bounds_of_its_coin",)),
    ("sampling.lazy._tables", "2**16 * c * height[k]", ("2**16 * c * height[k + 1]",), (INTEGERS + "every_integer_is_in_its_cell_and_within_the_bounds_of_its_coin",)),
    # The local model
    ("mechanisms.local.directions.DirectionMechanism.__init__", "exact(self.epsilon) * share", SCALED, BITS),
    ("mechanisms.local.directions.DirectionMechanism.__init__", "exact(self.epsilon) * (1 - share)", ("scaled", "exact(self.epsilon)"), BITS),
    ("mechanisms.local.directions.DirectionMechanism.trace_coin", "exact(self.trace_epsilon)", SCALED, BITS),
    ("mechanisms.local.directions.DirectionMechanism._trace", "(share - 0.5) / math.tanh(self.trace_epsilon / 2)", SCALED, (CAPS + "unbiased_with_the_stated_variance",)),
    ("mechanisms.local.one_bit.OneBit.direction_coin", "exact(self.direction_epsilon)", SCALED, BITS),
    ("mechanisms.local.one_bit.BitMechanism.at", "rank / 2", ("(rank + 1) / 2",), (CAPS + "mass_and_slope_of_a_bit_by_quadrature",)),
    ("mechanisms.local.one_bit.BitMechanism.at", "(n_features - rank) / 2", ("(n_features - rank + 1) / 2", "(n_features - rank) / 2 + 1"), (CAPS + "mass_and_slope_of_a_bit_by_quadrature",)),
    ("mechanisms.local.one_bit.BitMechanism.at", "rank * (weighted - mass) / (n_features - 1)", ("scaled", "rank * (weighted - mass) / n_features"), (CAPS + "mass_and_slope_of_a_bit_by_quadrature",)),
    ("mechanisms.local.double_cap.CapMechanism.at", "math.expm1(epsilon)", SCALED, BITS),
    ("mechanisms.local.double_cap.CapMechanism.at", "(1 + gain) * mass / normalizer", SCALED, BITS),
    ("mechanisms.local.double_cap.CapMechanism.at", "gain * (weighted - mass) / (normalizer * (d - 1))", ("scaled", "gain * (weighted - mass) / (normalizer * d)"), (CAPS + "alpha_by_quadrature_and_the_best_threshold",)),
    ("mechanisms.local.double_cap.CapMechanism.aim", "exact(self.epsilon)", SCALED, BITS),
    ("mechanisms.local.double_cap.CapMechanism.aim", "mass_below(self.n_features, self.threshold)", SCALED, BITS),
    ("sampling.caps.mass_below", "(n_features - 1) / 2", ("n_features / 2", "(n_features + 1) / 2"), (CAPS + "the_mass_of_the_caps_is_bounded_from_below",)),
    ("sampling.caps.LazySines.__init__", "n_features - 1", ("n_features", "n_features + 1"), (CAPS + "distribution_of_the_sine",)),
    ("mechanisms.local.gaussian.LocalGaussian.sigma", "1 / Fraction(self.rho)", SCALED, LOCAL),
    ("mechanisms.local.gaussian.LocalGaussian.off_diagonal_sd", "1 / (2 * Fraction(self.rho))", SCALED, LOCAL),
    ("mechanisms.local.gaussian.PaperGaussian.sigma", "math.sqrt(2 * math.log(1.25 / self.delta)) / self.epsilon", SCALED, LOCAL),
    ("mechanisms.local.gaussian.PaperGaussian.rho", "1 / Fraction(self.sigma) ** 2", ("scaled", "1 / Fraction(self.sigma)"), LOCAL),
    ("mechanisms.local.gaussian.UpperTriangleNoise.noise", "self.sigma * growth", SCALED, LOCAL),
    ("mechanisms.local.gaussian.UpperTriangleNoise.noise", "self.off_diagonal_sd * growth", SCALED, LOCAL),
    ("mechanisms.local.gaussian.PaperGaussian._epsilon", "square_root_above(Fraction(2)) / self.sigma * (1 + 1e-12)", SCALED, ("statistical/test_local_gaussian.py::test_true_epsilon_of_the_paper",)),
    ("accounting.calibration.discrete_gaussian_excess", "(1 + math.exp(min(epsilon, 700.0))) * math.sqrt(n_numbers) / (23 * least_scale**2)", ("scaled", "(1 + math.exp(min(epsilon, 700.0))) * math.sqrt(n_numbers) / (23 * least_scale**3)"), (MECHANISMS + "discrete_and_rounded_gaussians_are_as_close_as_stated",)),
]
