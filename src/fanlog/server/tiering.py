"""The server's lake, where it has one. Imported only then: it needs the extra `lake`."""

from __future__ import annotations

from collections.abc import Callable

from fanlog.broker.clock import Clock
from fanlog.broker.tiering.lake_tiers import LakeTiers
from fanlog.broker.tiering.table_looks import LookAtTables
from fanlog.broker.tiering.tiers import Tiers
from fanlog.broker.transaction import Ledger
from fanlog.config import Config
from fanlog.lake import table_looks
from fanlog.lake.cold import ColdReader
from fanlog.lake.location import Location
from fanlog.lake.tiered import TieredLog
from fanlog.log.api import Log


def tiered(hot: Log, config: Config) -> TieredLog:
    """A log over the hot one and the lake.

    Raises:
        LakeError: The address is none.
    """
    return TieredLog(hot, ColdReader(Location.parse(config.lake)))


def look_at_tables(config: Config) -> LookAtTables:
    """Looks at the tables of the lake."""
    location = Location.parse(config.lake)
    return lambda: table_looks.look(location)


def new_tiers(store: Log, clock: Clock, config: Config) -> Callable[[Ledger], Tiers]:
    """Makes the tiers of a broker on such a log, which knows hard state by its ledger."""
    assert isinstance(store, TieredLog)

    def tiers(ledger: Ledger) -> Tiers:
        return LakeTiers(
            ledger,
            store,
            clock,
            hot_retention_s=config.hot_retention_s,
            hot_size_bytes=config.hot_size_bytes,
        )

    return tiers
