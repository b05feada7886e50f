"""Contract of `distance`: how far rows of numbers are from the rows that they should be.

`launch_distance(rows, expected, distances)`

Decides per row, all sums in float64 and in element order: gap = the sum of (row - expected)^2, the
two lengths likewise of row^2 and of expected^2; distances[i] = sqrt(gap) / sqrt(the larger length).

    rows that are equal, two rows of zeros among them      0
    a row of zeros against any other                       1
    a row with a NaN or an infinity, on either side        infinity

It is symmetric, at most 2, and about 1.4 between rows that have nothing to do with each other.

Inputs:
    rows: shape [n, num_elements], float32.
    expected: shape [n, num_elements], float32.
Outputs:
    distances: shape [n], float64; every element is written.

There is no device implementation: the rows are read once, from where the file is mapped.
"""
