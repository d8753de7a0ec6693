"""What is kept of a cell by scores: edge by edge, and state by state."""

from collections.abc import Mapping

Kept = dict[str, tuple[str, ...]]  # of a state: source -> operations
Table = dict[str, tuple[float, dict[str, float]]]  # source -> score of the edge, and of operations
INPUTS = {"0", "1"}


def kept_of(place: str, node: int, likely: Mapping[str, tuple[str, ...]]) -> Kept:
    """The decisions about one state, as kept options of its choices."""
    sources = tuple(source for source in map(str, range(node)) if likely.get(source))
    edges = {f"{place}/{source}>{node}": likely.get(str(source), ()) for source in range(node)}
    return {f"{place}/>{node}": sources, **edges}


def reached_in(tables: Mapping[int, Table], threshold: float) -> dict[int, Kept]:
    """For each state what is likely of edges that come from a state that something leads to.

    Where nothing leads through the cell, the likeliest operation into its first state.
    """
    reached, found = {*INPUTS}, {}
    for node, table in tables.items():
        likely = likely_in(table, threshold)
        found[node] = {source: likely[source] for source in likely if source in reached}
        reached |= {str(node)} if any(found[node].values()) else set()
    if reached == INPUTS:
        first = min(tables)
        found[first] = likeliest_in(tables[first])
    return found


def likely_in(table: Table, threshold: float) -> Kept:
    """The operations above the threshold, of edges above it."""
    return {
        source: tuple(op for op, p in ops.items() if p > threshold)
        for source, (edge, ops) in table.items()
        if edge > threshold
    }


def likeliest_in(table: Table) -> Kept:
    """The likeliest operation alone, by its edge and itself; the first of equals."""
    pairs = {(s, op): edge * p for s, (edge, ops) in table.items() for op, p in ops.items()}
    source, op = max(pairs, key=pairs.__getitem__)
    return {source: (op,)}
