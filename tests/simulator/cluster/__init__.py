"""A cluster of one shard in one world: one seed, one history, on virtual time.

Three nodes, each with the product's own replicated log, cache, follower, renewals and rules of
ownership, on a partition with Kafka's semantics. Their threads take turns (`turns`), so that all
that is chance comes from the seed. `python -m simulator.cluster --seed N` lives a world again.

What may break: acknowledgements never come or come without an offset; records come twice, or come
late, also after their producer was reset; there is no leader for a while, and a new one knows less
of what is committed; nodes stand still, are killed, lose their caches or come back with older ones;
links are cut; clocks are set by an hour and run at different rates.

What must survive is in `judge`.
"""
