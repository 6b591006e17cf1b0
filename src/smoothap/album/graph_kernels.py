"""Loops of the graph of neighbours, compiled (extra `fast`). Imported only when numba is installed."""

import numpy as np

from smoothap._core.threads import compiled


@compiled()
def _insert(value: float, place: int, products: np.ndarray, found: np.ndarray) -> None:
    """Put a product among those of a row (w,), highest first; the lowest one falls out."""
    at = products.shape[0] - 1
    while at > 0 and products[at - 1] < value:
        products[at], found[at] = products[at - 1], found[at - 1]
        at -= 1
    products[at], found[at] = value, place


@compiled()
def take_rows(
    part: int, parts: int, tile: np.ndarray, top: int, left: int, products: np.ndarray, found: np.ndarray,
    least: np.ndarray,
) -> None:  # fmt: skip
    """Offer the products (r, c) of a tile to its rows, which begin at `top`; its columns begin at `left`."""
    for row in range(part, tile.shape[0], parts):
        mine, theirs = products[top + row], found[top + row]
        bound = max(least[top + row], mine[-1])
        values = tile[row]
        for column in range(values.shape[0]):
            if values[column] > bound:
                _insert(values[column], left + column, mine, theirs)
                bound = max(least[top + row], mine[-1])


@compiled()
def take_columns(
    part: int, parts: int, tile: np.ndarray, top: int, left: int, is_new: np.ndarray, needed: int,
    products: np.ndarray, found: np.ndarray, least: np.ndarray,
) -> None:  # fmt: skip
    """Offer the products of a tile to its columns; to those that are not among the `needed`, of new rows alone."""
    begin, end = tile.shape[1] * part // parts, tile.shape[1] * (part + 1) // parts
    bounds = np.empty(end - begin, np.float32)
    for column in range(begin, end):
        bounds[column - begin] = max(least[left + column], products[left + column, -1])
    for row in range(tile.shape[0]):
        values = tile[row, begin:end]
        for column in range(values.shape[0]):
            if values[column] > bounds[column]:
                place = left + begin + column
                if place < needed or is_new[top + row]:
                    _insert(values[column], top + row, products[place], found[place])
                    bounds[column] = max(least[place], products[place, -1])


@compiled()
def reach(
    starts: np.ndarray, linked: np.ndarray, weights: np.ndarray, seeds: np.ndarray, given: np.ndarray,
    closed: np.ndarray, most: int, steps: int, damping: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """What reaches nodes from the seeds (s,), to which it is given (s,): nodes (m,), values (m,), from where (m,).

    Where most of it comes from is a node that has more of it, or -1 for the query itself. The nodes are those that are
    met first, link by link, `most` at the most; `closed` (n,) are not passed. Sums are in the order of links: every
    processor gives the same bits.
    """
    place = np.full(starts.shape[0] - 1, -1, np.int32)
    nodes = np.empty(most, np.int64)
    number = 0
    for seed in seeds:
        if number < most and place[seed] < 0 and not closed[seed]:
            place[seed], nodes[number] = number, seed
            number += 1
    head = 0
    links = 0
    while head < number:
        node = nodes[head]
        head += 1
        links += starts[node + 1] - starts[node]
        for link in range(starts[node], starts[node + 1]):
            other = linked[link]
            if number < most and place[other] < 0 and not closed[other]:
                place[other], nodes[number] = number, other
                number += 1
    source = np.zeros(number)
    for at in range(seeds.shape[0]):
        if place[seeds[at]] >= 0:
            source[place[seeds[at]]] += given[at]
    near, weight, begins = np.empty(links, np.int32), np.empty(links), np.zeros(number + 1, np.int64)
    count = 0
    for at in range(number):
        node = nodes[at]
        for link in range(starts[node], starts[node + 1]):
            if place[linked[link]] >= 0:
                near[count], weight[count] = place[linked[link]], weights[link]
                count += 1
        begins[at + 1] = count
    values, after = source.copy(), np.empty(number)
    for _ in range(steps):
        for at in range(number):
            total = 0.0
            for link in range(begins[at], begins[at + 1]):
                total += weight[link] * values[near[link]]
            after[at] = damping * total + (1.0 - damping) * source[at]
        values, after = after, values
    through = np.full(number, -1, np.int64)
    for at in range(number):
        most_brought = (1.0 - damping) * source[at]
        for link in range(begins[at], begins[at + 1]):
            brought = damping * weight[link] * values[near[link]]
            if brought > most_brought and values[near[link]] > values[at]:
                most_brought, through[at] = brought, nodes[near[link]]
    return nodes[:number].copy(), values, through
