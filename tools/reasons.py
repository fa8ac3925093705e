"""Why something of a counterpart is otherwise here, by the counterpart's class. `→ name` points to what stands in for it.

A key may name several things, with spaces between them; methods end with ().
"""

_NO_COPY = "the data are never changed, so there is nothing to switch off"
_THREADS = "all cores, or as many as `LEMMATA_THREADS` says; results do not depend on it"
_SIDE = "attributes of users and items are not modelled"
_CG = "chosen by `method`: exact rows, or conjugate gradients where they are faster"
_LABELS = "labels are kept by the model: every method takes and returns the ids it was given"
_COLD = "→ `fold_in` takes rows of new users (or items) and has the factors, predictions and recommendations"

_CMF = {
    "k": "→ `rank`",
    "lambda_": "→ `reg`",
    "niter": "→ `max_iter`, and stops when it has settled (→ `tol`)",
    "use_cg max_cg_steps precondition_cg finalize_chol": _CG,
    "k_user k_item k_main w_user w_item center_U center_I NA_as_zero_user NA_as_zero_item nonneg_C nonneg_D": _SIDE,
    "w_main": "with one objective there is nothing to weigh against",
    "l1_lambda": "ridge only: the certificate's bounds are those of the ridge",
    "nonneg": "→ `nonnegative`",
    "max_cd_steps": "how a non-negative row is solved is no parameter",
    "precompute_for_predictions": "nothing is kept that a method could not compute when it is called",
    "use_float": "float32 data stays float32, float64 stays float64",
    "random_state": "scikit-learn's default; pass a number for the same run again",
    "handle_interrupt": "always: Ctrl-C keeps the current factors and says so",
    "nthreads n_jobs": _THREADS,
    "produce_dicts user_dict_ item_dict_ user_mapping_ item_mapping_ reindex_": _LABELS,
    "drop_nonessential_matrices() force_precompute_for_predictions()": "there is nothing to drop or to precompute",
    "factors_warm() factors_multiple() predict_warm() predict_warm_multiple() topN_warm()": _COLD,
    "factors_cold() item_factors_cold() predict_cold() predict_cold_multiple() predict_new() topN_cold() topN_new()": _SIDE,
    "topN()": "→ `recommend`",
    "from_model_matrices()": "`lemmata.completion.certify_factors` certifies factors from anywhere",
    "swap_users_and_items()": "fit the transposed matrix",
    "predict()": "the same two arrays, called rows and columns",
    "fit()": _SIDE,
    "A_": "→ `U_`",
    "B_": "→ `V_`",
    "glob_mean_": "→ `mean_`",
    "user_bias_": "→ `row_bias_`",
    "item_bias_": "→ `column_bias_`",
    "Ai_ Bi_ C_ C_bias_ Cbin_ D_ D_bias_ Dbin_": _SIDE,
    "scaling_biasA_ scaling_biasB_": "the weights of the penalties follow from the counts of entries",
    "is_fitted_": "scikit-learn's `check_is_fitted`",
    "nfev_ nupd_": "→ `n_iter_`, → `trace_`",
}  # fmt: skip

_SURPRISE = {
    "compute_baselines() bsl_options": "→ `lemmata.MeanRatings`",
    "compute_similarities() get_neighbors() sim_options": "no neighbourhood model here; → `similar_items` compares factors",
    "default_prediction()": "`predict(…, unknown=\"baseline\")`",
    "estimate()": "→ `predict`",
    "fit()": "takes the data frame itself (or a matrix, or triplets) instead of a trainset; there is no rating_scale",
    "predict()": "one call for many pairs, `predict(users, items)`; nothing is clipped",
    "test()": "→ `predict`, → `score`",
    "trainset": "→ `observed_` keeps which entries were known",
    "bu": "→ `row_bias_`",
    "bi": "→ `column_bias_`",
}  # fmt: skip

_PATH = {
    "path()": "→ `lemmata.predict.lasso_path`, `enet_path` with scikit-learn's arguments; → `LassoPath` certifies every penalty"
}
_CHECKED = {"fit()": "always checks its input"}
_DENSE = {
    "densify() sparsify()": "`coef_` is an array; `scipy.sparse.csr_array(model.coef_)` where few weights are not zero"
}

_ATOMS = {
    "max_iter": "100 passes, and it stops when a pass changes the objective by less than `tol`",
    "tol": "the change of the mean objective over a pass, relative to it",
    "fit_algorithm": "coordinate descent gives the same codes several times sooner; 'lars' is taken",
    "transform_algorithm": "None codes as the fit did; pass 'omp' for scikit-learn's default",
    "positive_dict": "→ `lemmata.NMF` for factors without negative numbers",
    "callback": "→ `verbose`, → `checkpoint`, → `trace_`",
}  # fmt: skip

REASONS: dict[str, dict[str, str]] = {
    "AgglomerativeClustering": {
        "connectivity": "every two clusters may be merged; scikit-learn takes a graph that says which",
        "memory": "the tree is kept by the model: → `cut` takes it apart elsewhere, without a new fit",
    },
    "SparseCoder": {"dictionary": "an array as there; without one, the orthonormal basis of cosines"},
    "DictionaryLearning": {
        **_ATOMS, "code_init": "codes follow from the atoms: → `dict_init`", "error_": "→ `trace_`",
    },
    "MiniBatchDictionaryLearning": {
        **_ATOMS,
        "max_no_improvement": "→ `tol` looks at whole passes",
        "n_steps_": "→ `n_iter_` counts passes, `trace_` batches",
    },
    "Lasso": {**_PATH, **_CHECKED},
    "LassoCV": _PATH,
    "ElasticNet": {**_PATH, **_CHECKED},
    "ElasticNetCV": _PATH,
    "LogisticRegression": {
        **_DENSE,
        "penalty": '"auto": `C` and `l1_ratio` decide, as at "deprecated" there',
        "solver": '"auto": Newton\'s method where d × d matrices fit, else L-BFGS; the optimum is the same',
        "set_callbacks()": "`verbose=1` shows progress, → `trace_` has the run, → `checkpoint` resumes it",
    },
    "LinearSVC": _DENSE,
    "SVC": {
        "probability": "False by default; True works as there, with the folds of `random_state`",
        "probA_ probB_": "with probability=True",
    },
    "PCA": {
        "tol": "the share of the captured variance by which a step may still change it when an iterative solver stops; "
        "at 0 it goes on to rounding, as there",
    },
    "KMeans": {
        "algorithm": 'the same result to the bit, sooner: "auto" begins with Lloyd\'s steps and goes over to bounds on '
        'distances when the labels calm down; "lloyd" measures every distance, as there',
    },
    "LatentDirichletAllocation": {
        "transform()": "mixtures always sum to 1",
        "bound_": "→ `lower_bound_`, on the log-likelihood",
        "n_batch_iter_": "→ `n_iter_`",
        "random_state_": "→ `random_state` stays what was passed",
    },
    "LogisticRegressionCV": {
        **_DENSE,
        "penalty": '"auto": `l1_ratios` decides, as at "deprecated" there',
        "l1_ratios scoring use_legacy_attributes": "what scikit-learn 1.9 warns of is its default from 1.10, and here now, "
        "but for `scoring`, which stays accuracy",
        "solver": '"auto": Newton\'s method where d × d matrices fit, else L-BFGS; the optimum is the same',
        "set_callbacks()": "`verbose=1` shows progress, → `trace_` has the run",
    },
    "SGDClassifier": {
        **_DENSE,
        "fit()": "the minimum does not depend on where a solver starts",
        "partial_fit()": "`fit` takes files, streams and blocks of rows that do not fit into memory, several passes over them",
        "t_": "no stochastic steps are made",
    },
    "NMF": {
        "n_components": '"auto" there means as many as features, which reproduces X and says nothing about it',
        "solver": '"auto": "hals" for squares, the co-ordinate descent that is called "cd" there (and accepted), else "mu"',
        "shuffle": "sweeps go in order",
    },
    "MiniBatchNMF": {
        "n_components": '"auto" there means as many as features, which reproduces X and says nothing about it',
        "batch_size max_no_improvement": "→ `fit` takes all rows for a step, block by block where they are many",
        "forget_factor fresh_restarts fresh_restarts_max_iter": "→ `partial_fit` forgets nothing: what batches say adds up",
        "transform_max_iter": "→ `transform` goes on to the minimum, which is one",
        "n_steps_": "→ `n_iter_` counts the batches of → `partial_fit`",
    },
    "GaussianMixture": {},
    "CMF": {
        **_CMF,
        "method": "always alternating least squares; `method` says how a row is solved. Gradient steps: → `SGDFactorization`",
        "maxiter parallelize corr_pairs print_every": "of cmfrec's L-BFGS, which is not here; → `trace_` has the run",
        "user_bias item_bias": "→ `biases`, both or none",
        "center": "the mean of all is always taken off first",
        "scale_lam": "→ `reg_weighting`",
        "scale_bias_const": "biases are weighted like factors",
        "scale_lam_sideinfo add_implicit_features w_implicit": _SIDE,
        "NA_as_zero": "unknown is not zero; for implicit feedback → `feedback`",
        "include_all_X": "→ `recommend` always looks at all items",
        "transform()": "scikit-learn's: rows in, factors out; → `complete` fills in a matrix",
    },
    "CMF_implicit": {
        **_CMF,
        "apply_log_transf": "take `np.log1p` of the counts first, if you want it",
    },
    "AlternatingLeastSquares": {
        "factors": "→ `rank`",
        "regularization": "→ `reg`",
        "iterations": "→ `max_iter`, and stops when it has settled (→ `tol`)",
        "dtype": "float32 data stays float32, float64 stays float64",
        "use_native use_cg cg_steps": _CG,
        "calculate_training_loss": "always: → `trace_`",
        "num_threads": _THREADS,
        "explain()": "the same, called with a user and an item",
        "fit() fit_callback": "takes the same matrix, called X; progress is shown by `verbose=1`",
        "load() save()": "`lemmata.save`, `lemmata.load`: one file that executes nothing",
        "partial_fit_users() partial_fit_items() recalculate_user() recalculate_item()":
            "→ `fold_in` for new rows, → `update` for all",
        "rank_items()": "→ `predict` of a user and these items, sorted",
        "recommend() recommend_all()": "→ `recommend` takes labels (a user, some, or all), n, exclude_seen, exclude and items; "
        "seen entries are kept with the model, so no user_items is passed; `.to_frame()` gives a data frame",
        "similar_items() similar_users()": "the same, called with ids and n",
        "to_gpu()": "runs on the processor only",
        "user_factors": "→ `U_`",
        "item_factors": "→ `V_`",
        "XtX YtY user_norms item_norms": "computed when they are needed",
    },
    "SVD": {
        **_SURPRISE,
        "n_factors": "→ `rank`",
        "n_epochs": "→ `max_iter`, and stops when it has settled (→ `tol`)",
        "biased": "→ `biases`",
        "init_mean init_std_dev": "the start is no parameter",
        "lr_all lr_bu lr_bi lr_pu lr_qi": "→ `learning_rate`, one for all, chosen by the data unless given",
        "reg_all reg_bu reg_bi reg_pu reg_qi": "→ `reg`, one for all: per entry, as there; None scales it to the ratings",
        "sgd()": "→ `fit`",
        "pu": "→ `U_`",
        "qi": "→ `V_`",
    },
    "BaselineOnly": {
        **_SURPRISE,
        "bsl_options": "→ `by`, → `reg`: the equations are solved, not iterated",
        "verbose": "quiet unless asked",
    },
}  # fmt: skip

_WORKING_SETS = "no effect: coordinate descent on the Gram matrix of the columns that have entered"
_ORTHONORMAL = 'no effect: the block is made orthonormal after every product (as "QR")'

# what has the same name and default, and does something else (or nothing)
_PERCEPTRON = {
    "loss_ loss_curve_": "the objective at the weights that an epoch ends with; scikit-learn's is a mean over its batches",
    "coefs_ random_state": "biases begin at 0, and the draws are others: a seed does not give scikit-learn's numbers",
    "solver": "also every optimiser of `lemmata.optim`, by name or as an object",
    "activation": 'also "softplus" and "gelu"',
    "fit()": "weights of rows are relative to the mean over all, not over a batch",
}  # fmt: skip

REMARKS: dict[str, dict[str, str]] = {
    "PCA": {
        "n_components": "0 is refused: a subspace without dimensions has no axes to certify",
        "copy": _NO_COPY,
        "power_iteration_normalizer": _ORTHONORMAL,
        "iterated_power": '"auto" goes on until `tol` is met (7 products at tol=0); a number is taken as it is',
        "svd_solver": 'also "eigh", "svd", "power", "lanczos" and "gradient"; "full" takes dense arrays in memory only',
        "get_covariance() get_precision() score() score_samples()": "do not change with `whiten`; "
        "scikit-learn's do, since whitening scales its axes once more",
    },
    "IncrementalPCA": {
        "batch_size": "the rows worked on at once; the result does not depend on it (exact moments, not merged decompositions)",
        "n_components": "None keeps min(rows seen, features); scikit-learn takes the rows of the first batch",
        "partial_fit()": "always checks its input; takes sparse batches, and a first batch smaller than n_components",
        "fit()": "takes at most 20,000 features (d × d moments); → `PCA` and → `TruncatedSVD` take any number",
    },
    "TruncatedSVD": {
        "power_iteration_normalizer": _ORTHONORMAL,
        "algorithm": '"arpack" is our block Lanczos, to the same tolerance',
    },
    "KernelPCA": {
        "eigen_solver": '"auto" takes Lanczos above 800 rows and few components (scikit-learn: ARPACK above 200 rows and '
        'fewer than 10); "arpack" is our block Lanczos',
        "n_jobs": f"no effect: {_THREADS}",
        "iterated_power": '"auto" is 7 products',
        "gamma": 'also "scale" and "auto", as in SVC',
    },
    "LinearRegression": {
        "rank_ singular_": "also for sparse matrices and files; where lengths of columns differ much, rank is decided on "
        "columns of unit length, so that units do not decide it",
        "copy_X n_jobs": f"no effect: {_NO_COPY}",
    },
    "Ridge": {
        "solver": 'all words are accepted; "sag", "saga", "lsqr" and "sparse_cg" are conjugate gradients',
        "n_iter_": "a number, never None",
    },
    "RidgeCV": {"gcv_mode": "no effect: the smaller Gram matrix is decomposed"},
    "Lasso": {"precompute copy_X selection random_state": _WORKING_SETS},
    "LassoCV": {"precompute copy_X selection random_state n_jobs": _WORKING_SETS},
    "LogisticRegression": {"n_iter_": "a number; scikit-learn's is an array of one"},
    "LinearSVC": {
        "multi_class": '"crammer_singer" is refused',
        "dual random_state": 'no effect, except with method="subgradient": the optimum is the same',
    },
    "SVC": {
        "dual_coef_": "dense for sparse X, too",
        "n_iter_": "working sets; steps of SMO by machine are in `steps_`",
    },
    "KernelRidge": {"kernel": "no chi2 kernels by name; pass a function of two rows, or a kernel of `lemmata.predict.kernels`"},
    "Nystroem": {"kernel": 'no "precomputed" (there are no rows to draw from), no chi2 kernels by name'},
    "KNeighborsClassifier": {
        "algorithm": '"ball_tree" is the k-d tree as well; results are the same',
        "fit()": "also takes sample_weight: weight 2 is the row twice; a y of one class is refused",
    },
    "MLPClassifier": {**_PERCEPTRON, "classes_": "two or more: a y of one class is refused"},
    "MLPRegressor": {
        **_PERCEPTRON,
        "loss": "squared errors of several outputs are added; scikit-learn states their mean, with the gradient of the sum",
    },
    "KMeans": {
        "init": 'also "k-means||", for data that are not in memory',
        "n_init": "an array as `init` runs once, whatever n_init says and without a warning: every run would be the same",
        "random_state": "the same distribution of starts, other draws: a seed does not give scikit-learn's numbers",
        "copy_x": _NO_COPY,
    },
    "MiniBatchKMeans": {
        "init": 'also "k-means||"',
        "random_state": "the same distribution of starts and batches, other draws",
        "fit()": "rows are drawn with probabilities proportional to sample_weight and count once, so that a row of weight 2 is "
        "the row twice; scikit-learn draws evenly and weights",
    },
}  # fmt: skip

# functions of other libraries around their models
FUNCTIONS: dict[str, str] = {
    "surprise.Dataset.load_from_df": "`fit(frame)`: columns user, item, rating[, time]",
    "surprise.model_selection.GridSearchCV, cross_validate": "scikit-learn's own, with `lemmata.completion.Pairs(ALS())`: "
    "(user, item) rows as X, ratings as y",
    "implicit.evaluation.ranking_metrics_at_k": "`lemmata.completion.metrics.evaluate(model, test, k)`; precision divides by k "
    "(implicit: by min(k, liked)), AUC is over all unseen items (implicit: within the first K)",
}  # fmt: skip
