"""What the what-if benchmark makes of its rounds."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.what_if import Round, row, run_missing, slower

from headway.simulator.recorded import LoggedStep


def a_round(before: float, after: float, predicted: float) -> Round:
    simulated = 1.0
    both = [{"ttft_s": s, "tpot_s": 0.0} for s in (before, simulated, after, simulated + predicted)]
    return Round(*both, slower=1.02)


def test_a_row_is_the_mean_of_rounds_and_noise_what_they_differ_by() -> None:
    found = row("chunk=32", "ttft_s", [a_round(1.0, 1.5, 0.55), a_round(1.2, 1.6, 0.55), a_round(1.1, 1.5, 0.55)])
    assert found["measured"] == pytest.approx(1.3 / 3)
    assert found["predicted"] == pytest.approx(0.55)
    assert found["noise"] == pytest.approx((0.1 + 0.1 + 0.0) / 3)
    assert found["slower"] == pytest.approx(0.02)
    assert not found["holds"]


@pytest.mark.parametrize(
    ("rounds", "predicted", "holds"),
    [
        ([(1.0, 1.5)], 0.59, True),
        ([(1.0, 1.5)], 0.61, False),
        ([(1.0, 1.5)], -0.5, False),
        ([(1.0, 1.5), (1.0, 1.1)], 0.65, True),
        ([(1.0, 1.5), (1.0, 1.1)], 0.75, False),
    ],
)
def test_it_holds_within_a_fifth_or_the_noise(rounds: list[tuple[float, float]], predicted: float, holds: bool) -> None:
    assert row("chunk=32", "ttft_s", [a_round(*each, predicted) for each in rounds])["holds"] is holds


def test_how_much_slower_is_told_by_decodes_of_as_many_rows() -> None:
    base = [LoggedStep(1, 1, 9, 100, 0)] * 5 + [LoggedStep(2, 2, 9, 150, 0)] * 5 + [LoggedStep(80, 1, 9, 800, 0)]
    changed = [LoggedStep(1, 1, 9, 110, 0)] * 7 + [LoggedStep(2, 2, 9, 165, 0)] * 5 + [LoggedStep(7, 7, 9, 999, 0)]
    assert slower(base, changed) == pytest.approx(1.1)
    assert slower(base, changed[-1:]) == 1.0


def test_rounds_go_forth_and_back_and_whole_logs_are_kept(tmp_path: Path) -> None:
    ran: list[tuple[str, tuple[str, ...]]] = []

    def run(log: Path, *options: str) -> None:
        ran.append((log.stem, options))
        if len(ran) == 3:
            raise SystemExit("the server died")
        log.write_text("")

    with pytest.raises(SystemExit):
        run_missing(tmp_path, 2, run)
    run_missing(tmp_path, 2, run)
    names = ["base", "prefix_cache=off", "chunk=32", "max_running=2"]
    order = [f"{name}-1" for name in names] + [f"{name}-2" for name in reversed(names)]
    assert [name for name, _ in ran] == order[:3] + order[2:]
    assert dict(ran)["max_running=2-1"] == ("--max-running", "2")
    assert dict(ran)["base-2"] == ()
