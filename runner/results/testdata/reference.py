"""Makes reference.json: what numpy and scipy say of the values in it.

    python3 reference.py > reference.json      (Debian: python3-numpy, python3-scipy)

scipy.stats.t.ppf of scipy 1.10 is good to 1e-10 only, so one Newton step with its cdf and
pdf, which are exact to the last digits, makes it good to 1e-15.
"""
import json
import sys

import numpy as np
from scipy import stats


def quantile(nu):
    q = stats.t.ppf(0.975, nu)
    for _ in range(3):
        q -= (stats.t.cdf(q, nu) - 0.975) / stats.t.pdf(q, nu)
    return q


def summary(x):
    """Mean, sample standard deviation, its error, half the 95% interval and n."""
    x = np.asarray(x, dtype=float)
    n = len(x)
    out = {"n": n, "mean": None, "sd": None, "sem": None, "ci95": None}
    if n:
        out["mean"] = np.mean(x)
    if n > 1:
        out["sd"] = np.std(x, ddof=1)
        out["sem"] = stats.sem(x)
        out["ci95"] = quantile(n - 1) * stats.sem(x)
    return out


rng = np.random.default_rng(20261122)
datasets, algorithms, seeds, folds = ["cifar10", "svhn", "mnist"], ["fedavg", "fedprox", "ours"], [42, 114514, 350234, 7, 8], [1, 2, 3, 4]
jobs, acc, loss = [], {}, {}
for d in datasets:
    for a in algorithms:
        for s in seeds:
            for f in folds:
                x = 0.8 + 0.05 * algorithms.index(a) + 0.01 * rng.standard_normal()
                y = float(10.0 ** rng.uniform(-9, 6))
                if (d, a, s, f) in [("svhn", "ours", 42, 2), ("mnist", "fedavg", 7, 1), ("mnist", "fedavg", 8, 4)]:
                    x = float("nan")
                missing = (d, a, s) == ("svhn", "fedprox", 114514) and f == 3 or (d, a) == ("mnist", "ours") and s in (42, 7, 8, 350234)
                acc[d, a, s, f], loss[d, a, s, f] = (None if missing else x), y
                jobs.append({
                    "params": {"dataset": d, "algorithm": a, "seed": str(s), "fold": str(f)},
                    "acc": None if missing else ("NaN" if x != x else x), "loss": y,
                })


def units(values, d, a):
    """The mean over the folds of each seed that has all of them."""
    found = {}
    for s in seeds:
        x = [values[d, a, s, f] for f in folds]
        if all(v is not None and v == v for v in x):
            found[s] = np.mean(x)
    return found


rows, pairs, flat = [], [], []
for d in datasets:
    for a in algorithms:
        for name, values in (("acc", acc), ("loss", loss)):
            rows.append({"dataset": d, "algorithm": a, "metric": name, **summary(list(units(values, d, a).values()))})
            own, base = units(values, d, a), units(values, d, "fedavg")
            if a != "fedavg":
                pairs.append({"dataset": d, "algorithm": a, "metric": name, **summary([own[s] - base[s] for s in seeds if s in own and s in base])})
            for f in folds:
                x = [values[d, a, s, f] for s in seeds]
                flat.append({"dataset": d, "algorithm": a, "fold": str(f), "metric": name, **summary([v for v in x if v is not None and v == v])})

sets = [[1.0, 1.0, 1.0], [0.1, 0.1, 0.1, 0.1], [1e9 + 1, 1e9 + 2, 1e9 + 4], [1e-300, 3e-300], [-5.0], [], [0.1, 0.2], [1e15, 1.0, -1e15]]
sets += [list(rng.normal(size=n)) for n in list(range(2, 41)) + [100, 400]]
json.dump(
    {
        "jobs": jobs, "over_seed_fold": rows, "versus_fedavg": pairs, "over_seed": flat,
        "summaries": [{"values": x, **summary(x)} for x in sets],
        "student_975": {str(nu): quantile(nu) for nu in list(range(1, 60)) + [99, 199, 999, 9999]},
    },
    sys.stdout,
)
print()
