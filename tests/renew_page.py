#!/usr/bin/env python3
"""Renew what a page shows of a command's output: each line that is not printed any more becomes the one
that is printed most like it, between those printed around it.

usage: renew_page.py PAGE NUMBERS SHOWN OUT   (NUMBERS: of the page's lines that SHOWN has)
"""
import difflib
import sys


def aligned(shown, printed):
    """Indices of printed, increasing, one for each line of shown: the most alike in sum; O(n m) lines compared."""
    alike = [[1.0 if a == b else 0.9 * difflib.SequenceMatcher(None, a, b, False).ratio()
              for b in printed] for a in shown]
    n, m = len(shown), len(printed)
    best = [[0.0] * (m + 1) for _ in range(n + 1)]
    for i in range(1, n + 1):
        best[i][i - 1 if i - 1 <= m else m] = float("-inf")
        for j in range(i, m + 1):
            best[i][j] = max(best[i][j - 1], best[i - 1][j - 1] + alike[i - 1][j - 1])
    at, j = [], m
    for i in range(n, 0, -1):
        while best[i][j] == best[i][j - 1]:
            j -= 1
        j -= 1
        at.append(j)
    return at[::-1]


def main():
    page, numbers, shown, out = sys.argv[1:]
    with open(page) as f:
        lines = f.read().split("\n")
    with open(numbers) as f:
        number = [int(k) - 1 for k in f]
    with open(shown) as f:
        shown = f.read().split("\n")[:-1]
    with open(out) as f:
        printed = f.read().split("\n")[:-1]
    if len(printed) < len(shown):
        sys.exit(f"{page}:{number[0] + 1}: {len(shown)} lines are shown, {len(printed)} are printed: mend it by hand")
    for k, j in zip(number, aligned(shown, printed)):
        lines[k] = ("    " + printed[j]).rstrip()
    with open(page, "w") as f:
        f.write("\n".join(lines))


main()
