"""How often the interval of `analysis.forecast` contains what came, and the bias: by kind of world and age of the history.

python tests/support/forecast_calibration.py [--worlds 60] [--ahead 30] [--ages 7,14,...] [--every 7] [--kinds "a;b"]
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
import pandas as pd
from support.simulated_lives import AT, KINDS, Life

from exposurekit.analysis import forecast

PARTS = ("of_open", "of_gone", "of_new")
AGES = (7, 14, 20, 30, 60, 90, 120)
WORLDS = 60


def calibration(kind, ages=AGES, *, aheads=(30,), every=1, worlds=WORLDS, first_seed=0):
    """Return a row per age and horizon: the worlds with a number, those with it in the interval, and the bias.

    The bias, also of the parts, is a share of what is open then.
    A run every `every` days, the last one at each age.
    """
    rows = []
    lives = [Life(KINDS[kind], first_seed + seed) for seed in range(worlds)]
    for age in ages:
        forecasts = {ahead: [] for ahead in aheads}
        for life in lives:
            records, flows, relistings, people, runs = life.tables(age, every)
            table = forecast(records, flows, relistings, people=people, runs=runs, at=AT, days=aheads)
            for row in table[table["low"].notna()].itertuples():
                true_parts = life.parts_at(age, row.days)
                errors = [getattr(row, part) - true for part, true in zip(PARTS, true_parts, strict=True)]
                forecasts[row.days].append((sum(true_parts), row.open, row.low, row.high, *errors))
        for ahead, numbers in forecasts.items():
            truth, middle, low, high, *errors = np.array(numbers).reshape(-1, 4 + len(PARTS)).T
            scale = max(truth.mean(), 1) if numbers else np.nan
            inside = (low <= truth) & (truth <= high)
            rows.append(
                {
                    "kind": kind,
                    "age": age,
                    "ahead": ahead,
                    "worlds": worlds,
                    "numbers": len(numbers),
                    "inside": int(inside.sum()),
                    "with_number": len(numbers) / worlds,
                    "coverage": inside.mean() if numbers else np.nan,
                    "below": (truth < low).mean() if numbers else np.nan,
                    "bias": (middle - truth).mean() / scale if numbers else np.nan,
                    **{
                        f"bias_{part}": error.mean() / scale if numbers else np.nan
                        for part, error in zip(PARTS, errors, strict=True)
                    },
                    "width": (high - low).mean() / scale if numbers else np.nan,
                    "truth": truth.mean() if numbers else np.nan,
                }
            )
    return pd.DataFrame(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", type=int, default=WORLDS)
    parser.add_argument("--ahead", type=int, nargs="+", default=[30])
    parser.add_argument("--every", type=int, default=1, help="days from one run to the next")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ages", type=lambda text: [int(age) for age in text.split(",")], default=AGES)
    parser.add_argument("--kinds", type=lambda text: text.split(";"), default=[*KINDS])
    options = parser.parse_args()
    began = time.process_time()
    for kind in options.kinds:
        table = calibration(
            kind,
            options.ages,
            aheads=options.ahead,
            every=options.every,
            worlds=options.worlds,
            first_seed=options.seed,
        )
        for row in table.itertuples():
            print(  # noqa: T201
                f"{row.kind:36} age {row.age:3} ahead {row.ahead:3}  with a number {row.with_number:4.0%}  "
                f"coverage {row.coverage:4.0%}  below {row.below:4.0%}  bias {row.bias:+6.1%} "
                f"(open {row.bias_of_open:+6.1%} gone {row.bias_of_gone:+6.1%} new {row.bias_of_new:+6.1%})  width {row.width:5.0%}  "
                f"open then {row.truth:6.0f}",
                flush=True,
            )
    print(  # noqa: T201
        f"{options.worlds} worlds a kind, seeds from {options.seed}; {time.process_time() - began:.0f} s of CPU"
    )


if __name__ == "__main__":
    main()
