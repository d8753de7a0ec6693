"""What a search ends with: the best of its ranked draws, their weights, and how sure it is."""

from typing import TYPE_CHECKING

from ardor.architecture import AgainstOdds, Architecture, Probabilities, against_odds, certainty
from ardor.methods import Method
from ardor.searching.handover import cut_out_together
from ardor.searching.likely import DRAWS, likeliest, probabilities, strengths, widths, without
from ardor.searching.result import SearchResult
from ardor.searching.undecided import PRIOR_ALONE, undecided

if TYPE_CHECKING:
    from ardor.searching.loop import SearchLoop


def outcome(loop: "SearchLoop") -> SearchResult:
    """The result of a search whose epochs are over; its ranking can be continued as they can."""
    method = loop.selection.final()
    ranking = loop.ranking(method)
    ranked = ranking.best(loop.config.candidates)
    found = ranked[0].architecture
    members = tuple(one.architecture for one in ranked[: loop.config.ensemble])
    with loop.runtime.apart(4):
        drawn = method.decision_counts(DRAWS)
    shares, wide = probabilities(method), widths(method)
    odd = against_odds(loop.space.choices, found.options, shares)
    tell(loop, members, odd)
    return SearchResult(
        architecture=found,
        choices=loop.space.choices,
        candidates=ranked,
        probabilities=shares,
        strengths=strengths(method),
        removed=method.removed,
        likeliest=likeliest(found, without(wide, drawn)),
        watched={
            **loop.monitor.numbers(found),
            **loop.selection.numbers(),
            **({"certainty": certainty(found.options, shares)} if shares else {}),
            "against_odds": len(odd),
            **ranking.expected(),
            **{k: n for k, n in loop.stage.facts.items() if k == "gate_steps"},
        },
        weights={
            **cut_out_together(loop.net, loop.space, members, loop.method.conv),
            **ranking.statistics_of(members),
        },
        members=members,
        widths=wide,
        fell_with=method.fell_with(),
        warnings=tuple(warnings(loop, method, found, shares)),
    )


def tell(loop: "SearchLoop", members: tuple[Architecture, ...], odd: list[AgainstOdds]) -> None:
    """Notes on what was taken: fewer networks than were asked for, or less likely options."""
    if len(members) < loop.config.ensemble:
        loop.stage.tell(f"networks to predict together: {len(members)}, as no more were drawn")
    if odd:
        loop.stage.tell(
            f"kept against the odds: {len(odd)}, such as {odd[0].kept} of {odd[0].choice} at "
            f"{odd[0].probability:.1%}, where {odd[0].likelier} has "
            f"{odd[0].likelier_probability:.1%}"
        )


def warnings(
    loop: "SearchLoop", method: Method, found: Architecture, shares: Probabilities
) -> list[str]:
    """Says so where gates that could have learned have decided little."""
    if not loop.learner.gates and not method.learns_by_scores:
        return []
    if not loop.config.epochs:
        return [PRIOR_ALONE]
    steps, out = loop.stage.facts.get("gate_steps"), [*method.negligible().values()]
    said = undecided(loop.space.choices, found.options, shares, steps, out)
    for warning in said:
        loop.stage.tell(warning)
    return said
