"""The pipelines that work for a server, by their own reports.

Soft state, all of it: a pipeline reports again a few seconds after the broker was started anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fanlog import limits
from fanlog.broker.clock import Clock
from fanlog.broker.transaction import Ledger
from fanlog.errors import ResourceExhausted
from fanlog.model.pipelines import PipelineReport, PipelineView


@dataclass(eq=False)
class Pipelines:
    """The last report of each pipeline. Lives on the loop."""

    _ledger: Ledger
    _clock: Clock
    _heard: dict[str, tuple[float, PipelineReport]] = field(default_factory=dict)

    async def report(self, report: PipelineReport, *, is_leaving: bool = False) -> None:
        """Keep what a pipeline says of itself; forget one that leaves.

        Raises:
            ResourceExhausted: As many pipelines are known as may be.
        """
        self._forget()
        if is_leaving:
            self._heard.pop(report.name, None)
        elif report.name not in self._heard and len(self._heard) >= limits.PIPELINES_MAX:
            raise ResourceExhausted(
                f"{limits.PIPELINES_MAX} pipelines are known already, as many as may be"
            )
        else:
            self._heard[report.name] = self._clock.now(), report
        # An owner that is deposed must not answer.
        await self._ledger.sync()

    async def list_all(self) -> list[PipelineView]:
        """The pipelines that were heard of lately, the last one first."""
        found = self.known()
        await self._ledger.sync()
        return found

    def known(self) -> list[PipelineView]:
        """The same, at once."""
        self._forget()
        now = self._clock.now()
        views = [
            PipelineView(report, now - heard_s, now - heard_s > limits.PIPELINE_MISSED_S)
            for heard_s, report in self._heard.values()
        ]
        return sorted(views, key=lambda view: (view.silent_s, view.report.name))

    def _forget(self) -> None:
        oldest_s = self._clock.now() - limits.PIPELINE_KEPT_S
        for name, (heard_s, _) in list(self._heard.items()):
            if heard_s < oldest_s:
                del self._heard[name]
