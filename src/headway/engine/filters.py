"""min-p, top-k and top-p as one threshold a row: a token stays when its scaled logit reaches it."""

from __future__ import annotations

import torch

_CANDIDATES = 256
"""Tokens ranked at first for top-p; a nucleus larger than this costs a full sort of its row."""
_MAX_RANKED = 1024
"""Beyond this many, ranking all rows together costs more than sorting the rows that need it."""


def thresholds(z: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor, min_p: torch.Tensor) -> torch.Tensor:
    """[N, 1] in fp32. z [N, vocab] is logits over temperature; top_k, top_p, min_p [N], off as in `Sampling`.

    Applied in this order: min-p against the best token; top-k; top-p over what is left. Tokens equal to the last one
    kept are kept too, so the set does not depend on how a sort breaks ties.
    """
    lowest = torch.full((z.shape[0], 1), float("-inf"), device=z.device)
    best = z.amax(-1, keepdim=True)
    floor = torch.where((min_p > 0)[:, None], best + min_p.clamp(min=1e-30).log()[:, None], lowest)
    few = (top_k > 0) & (top_k < z.shape[1])
    nuclear = top_p < 1
    wanted = few | nuclear
    needs = torch.where(few, top_k, 0)
    for rows, ranked in _ranked(z, wanted, needs):
        floor[rows] = _floor(z[rows], ranked, floor[rows], top_k[rows], few[rows], top_p[rows])
    return floor


def _ranked(z: torch.Tensor, wanted: torch.Tensor, needs: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Rows with their best logits in descending order: enough of them for each row's top-k."""
    groups = []
    for rows in (wanted & (needs <= _MAX_RANKED), wanted & (needs > _MAX_RANKED)):
        if rows.any():
            chosen = rows.nonzero().flatten()
            count = min(max(_CANDIDATES, int(needs[chosen].max())), z.shape[1])
            groups.append((chosen, z[chosen].topk(count).values))
    return groups


def _floor(
    z: torch.Tensor,
    ranked: torch.Tensor,
    floor: torch.Tensor,
    top_k: torch.Tensor,
    few: torch.Tensor,
    top_p: torch.Tensor,
) -> torch.Tensor:
    kth = ranked.gather(1, (top_k.clamp(1, ranked.shape[1]) - 1)[:, None])
    floor = torch.where(few[:, None], torch.maximum(floor, kth), floor)
    best = ranked[:, :1]
    mass = torch.where(z >= floor, (z - best).exp(), 0.0).sum(-1, dtype=torch.float64)
    target = top_p.double() * mass
    last, reached = _nucleus(ranked, floor, best, target)
    for row in ((top_p < 1) & ~reached).nonzero().flatten().tolist():
        full = z[row : row + 1].sort(descending=True).values
        last[row] = _nucleus(full, floor[row : row + 1], best[row : row + 1], target[row : row + 1])[0][0]
    return torch.where((top_p < 1)[:, None], torch.maximum(floor, last), floor)


def _nucleus(
    ranked: torch.Tensor, floor: torch.Tensor, best: torch.Tensor, target: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The last logit [N, 1] of the smallest best set with that mass, and whether `ranked` holds the whole set [N]."""
    weights = torch.where(ranked >= floor, (ranked - best).exp(), 0.0)
    cumulative = weights.cumsum(-1, dtype=torch.float64)
    index = (cumulative < target[:, None]).sum(-1)
    reached = index < ranked.shape[1]
    return ranked.gather(1, index.clamp(max=ranked.shape[1] - 1)[:, None]), reached
