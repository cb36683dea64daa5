"""The table of a gateway has the methods of a broker, each with its bound and its kind."""

from __future__ import annotations

from fanlog.config import Config
from fanlog.server import grpc_api
from fanlog.server.app import running
from fanlog.server.services import SERVICES
from fanlog.transport.methods import MethodForm


async def test_forms_are_those_of_the_methods_with_a_broker():
    async with running(Config(port=0, http_port=None, memory=True)) as server:
        made = [MethodForm.of(one) for one in grpc_api.make_methods(SERVICES, server.broker)]
    assert list(grpc_api.method_forms(SERVICES)) == made
