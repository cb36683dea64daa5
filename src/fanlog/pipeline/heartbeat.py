"""The heartbeat: tells the server every few seconds that the pipeline is there, and how it is."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from fanlog import limits
from fanlog.client import CallFailed, Client
from fanlog.model.pipelines import PipelineReport
from fanlog.v1 import pipelines_pb2 as pb
from fanlog.wire.pipelines import report_pb

log = logging.getLogger("fanlog.pipeline")


class Heartbeat:
    """Runs in a thread of its own until it is stopped; a server that is away is told later."""

    def __init__(
        self,
        connect: Callable[[], Client],
        report: Callable[[], PipelineReport],
        *,
        every_s: float = limits.PIPELINE_REPORT_S,
    ) -> None:
        self._connect = connect
        self._report = report
        self._every_s = every_s
        self._stopping = threading.Event()
        #: Why the last report did not arrive; said once.
        self._trouble = ""

    def run(self) -> None:
        with self._connect() as client:
            while not self._stopping.is_set():
                self.tell(client)
                self._stopping.wait(self._every_s)
            self.tell(client, leaving=True)

    def stop(self) -> None:
        """End with a report that says so."""
        self._stopping.set()

    def tell(self, client: Client, *, leaving: bool = False) -> None:
        """Report once."""
        request = pb.ReportPipelineRequest(pipeline=report_pb(self._report()), leaving=leaving)
        try:
            client.call("fanlog.v1.Pipelines/ReportPipeline", request, pb.ReportPipelineResponse)
        except CallFailed as error:
            if not self._trouble:
                log.warning("action=heartbeat_unheard error=%s", error)
            self._trouble = str(error)
            return
        self._trouble = ""
