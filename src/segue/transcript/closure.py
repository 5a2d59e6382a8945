"""Giving every call exactly one completion: complete pairs or nothing.

A real result is never replaced. The ledger's real result comes first, unless compaction left a note of it in the
history; then successes from the history, then failures; what is blank or only notes that a result is missing comes
last. Only where no tool ever answered stands a neutral note, with the reason if it is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from segue.conversation.blocks import ToolCall, ToolResult, is_real, status_of
from segue.errors import TranscriptError
from segue.transcript.blocks.outcomes import is_placeholder, outcome_of, same_outcome, words_of
from segue.transcript.drafts import Note

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.conversation.interaction import Interaction
    from segue.transcript.drafts import CallDraft, ResultDraft
    from segue.transcript.policy import Policy

ANOTHER = "[Another result of the same call:]"


def settle(
    draft: CallDraft, ledger: Mapping[str, Interaction] | None, policy: Policy, notes: list[Note]
) -> ToolResult:
    """The one result of a call."""
    known = None if ledger is None else ledger.get(draft.call.id)
    results = draft.results
    if known is None and len(results) == 1 and draft.answered:
        return results[0].result
    if known is not None and known.result is not None and is_real(known.result):
        for found in results:
            if found.result.elided:
                return found.result
        return _from_ledger(draft, known.result, notes)
    if draft.answered:
        return _best_of(draft, notes)
    return _without_result(draft, known, policy, notes)


def _from_ledger(draft: CallDraft, result: ToolResult, notes: list[Note]) -> ToolResult:
    if not draft.answered:
        notes.append(
            Note("result_recovered", draft.message, draft.block, draft, decision="the ledger holds it")
        )
    extra = result.extra
    for other in draft.results:
        if not is_real(other.result):
            continue
        if same_outcome(other.result, result):
            extra = extra or other.result.extra  # the same result, with what its own wire adds to it
        else:
            _supersede(draft, other, "the ledger's result stands", notes)
    return result if extra is result.extra else structs.replace(result, extra=extra)


def _best_of(draft: CallDraft, notes: list[Note]) -> ToolResult:
    """The result that tells most; several that differ are sent as one, since nobody knows which is out of date."""
    real = [found for found in draft.results if is_real(found.result)]
    telling = [found for found in real if not is_placeholder(found.result)]
    of_rank = telling or real
    best = [found for found in of_rank if status_of(found.result) == "complete"] or of_rank
    kept = _distinct(best) if telling else best[:1]
    sent = set(kept)
    for other in draft.results:
        if other not in sent:
            _supersede(draft, other, _ground(kept[0], other), notes)
    if len(kept) == 1:
        return kept[0].result
    notes += [Note("results_joined", other.message, other.block, draft) for other in kept[1:]]
    return _joined([found.result for found in kept])


def _distinct(results: list[ResultDraft]) -> list[ResultDraft]:
    """The results without those that came before, or whose words the longest of them holds."""
    longest = max((words_of(found.result) for found in results), key=len)
    distinct = {outcome_of(found.result): found for found in reversed(results)}
    first = set(distinct.values())
    return [
        found
        for found in results
        if found in first
        and (
            found.result.media or (words := words_of(found.result)) == longest or words.strip() not in longest
        )
    ]


def _joined(results: list[ToolResult]) -> ToolResult:
    text = f"\n\n{ANOTHER}\n".join(words for result in results if (words := words_of(result)))
    media = tuple(medium for result in results for medium in result.media)
    failed = results[0].error is not None
    return structs.replace(
        results[0],
        output=None if failed else text,
        error=text if failed else None,
        complete=True,
        media=media,
    )


def _ground(best: ResultDraft, other: ResultDraft) -> str:
    if not is_real(other.result) or (is_placeholder(other.result) and not is_placeholder(best.result)):
        return "a real result stands instead of a placeholder"
    if status_of(other.result) == "error" and status_of(best.result) == "complete":
        return "a success stands instead of a failure"
    return "the first result stands" if same_outcome(best.result, other.result) else "another result holds it"


def _supersede(draft: CallDraft, other: ResultDraft, ground: str, notes: list[Note]) -> None:
    notes.append(Note("result_superseded", other.message, other.block, draft, decision=ground))


def _without_result(
    draft: CallDraft, known: Interaction | None, policy: Policy, notes: list[Note]
) -> ToolResult:
    if known is not None and not known.finished and policy.open_calls == "refuse":
        raise TranscriptError(
            f'The call of tool "{draft.call.name}" is still running.',
            code="call_running",
            path=f"messages[{draft.message}].blocks[{draft.block}]",
            hint="Let the scheduler finish or cancel it before the next request.",
        )
    placeholder = next((found.result for found in draft.results if found.result.reason is not None), None)
    if placeholder is not None:
        return placeholder
    recorded = None if known is None else known.result
    result = recorded or ToolResult("", reason="interrupted")
    decision = "no result was recorded" if recorded is None else "the ledger holds it"
    reason = result.reason or "interrupted"
    notes.append(Note("call_closed", draft.message, draft.block, draft, decision=decision, reason=reason))
    return result


def recover_call(call: ToolCall, ledger: Mapping[str, Interaction] | None) -> ToolCall:
    """A reconstructed call as the ledger knows it, if it does."""
    known = None if ledger is None else ledger.get(call.id)
    return call if known is None or known.call.reconstructed else known.call
