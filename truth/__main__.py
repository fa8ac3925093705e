"""./run truth [SUBJECT…] [--seeds N] [--quick] [--markdown] [--wrong]: ends non-zero where a claim is wrong too often."""

from __future__ import annotations

import argparse
import sys
import time

from truth.harness import HEADER, count, rows, suites


def main() -> int:
    parser = argparse.ArgumentParser(prog="./run truth", description=__doc__)
    parser.add_argument(
        "subjects", nargs="*", help="subspaces, partitions, … or subject.suite; all by default"
    )
    parser.add_argument("--seeds", type=int, help="as many per suite, instead of its own number")
    parser.add_argument("--quick", action="store_true", help="the few seeds that ./run test takes")
    parser.add_argument("--markdown", action="store_true", help="the table of docs/audit.md")
    parser.add_argument("--wrong", action="store_true", help="list every case that came out wrong")
    asked = parser.parse_args()
    known = suites()
    names = {suite.subject for suite in known} | {suite.name for suite in known}
    for subject in asked.subjects:
        if subject not in names:
            parser.error(f"there is no subject {subject!r}; there are {', '.join(sorted(names))}.")
    chosen = [
        one
        for one in known
        if not asked.subjects or one.subject in asked.subjects or one.name in asked.subjects
    ]
    begin = time.perf_counter()
    tallies = count(chosen, asked.quick, asked.seeds, lambda name: print(name, file=sys.stderr))
    table = [HEADER, *rows(tallies)]
    if asked.markdown:
        table.insert(1, ("---",) * len(HEADER))
        print("\n".join("| " + " | ".join(row) + " |" for row in table))
    else:
        wide = [max(map(len, column)) for column in zip(*table, strict=True)]
        for row in table:
            cells = (f"{cell:<{width}}" for cell, width in zip(row, wide, strict=True))
            print("  ".join(cells).rstrip())
    if asked.wrong:
        for one in tallies:
            for case in one.wrong:
                print(f"{one.claim}: {case}")
    bad = [one for one in tallies if one.complaints]
    cases = sum(one.yes + one.no for one in tallies)
    print(
        f"{cases:,} verdicts in {time.perf_counter() - begin:.0f} s; {len(bad)} claims above their limits"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
