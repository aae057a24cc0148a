"""Measurement of an engine: each query of each pass, one after the other."""

from common import Failure, bytes_for_everything


def cache_bytes(setting, start, mode):
    """The limit of a peer's cache in bytes.

    For "half", the peer runs the first pass once without limits, and is asked for what it then holds.
    """
    if setting.cache == "all":
        return bytes_for_everything()
    if setting.cache != "half":
        return setting.cache
    setting.link.limit(None)
    with start(setting, mode, bytes_for_everything()) as engine:
        for query in setting.queries.first:
            run_query(engine, mode, query)
        held = engine.cached_bytes()
    if held == 0:
        raise Failure(f"{mode} has nothing in its cache after a pass")
    print(f"{mode}: the queries' working set takes {held:,} bytes")
    return held // 2


def run_query(engine, mode, query):
    """Runs a query; a failure names it and the mode."""
    try:
        return engine.run(query.sql)
    except Failure as failure:
        raise Failure(f"query {query.name} in {mode}: {failure}") from failure


def measure(setting, results, mode, start, caches):
    """Yields a record of each query of each pass. `start` begins an engine in a context."""
    limit = cache_bytes(setting, start, mode) if caches else None
    with start(setting, mode, limit) as engine:
        setting.link.limit(setting.bandwidth)
        setting.notes[mode] = {"engine": engine.version}
        for run, queries in setting.queries.passes(setting.passes):
            for query in queries:
                before = setting.link.counters()
                answer = run_query(engine, mode, query)
                after = setting.link.counters()
                results.check(mode, query, answer.rows)
                from_storage, to_storage = (there - here for here, there in zip(before, after))
                yield setting.queries.record(
                    workload=setting.workload,
                    scale=setting.scale,
                    format="parquet",
                    mode=mode,
                    egress_bytes_per_s=setting.bandwidth and setting.bandwidth // 8,
                    query=query.name,
                    sql=query.sql,
                    run=run,
                    seconds=answer.seconds,
                    rows=len(answer.rows),
                    cache_bytes=limit or 0,
                    bytes_from_storage=from_storage,
                    bytes_to_storage=to_storage,
                )
        if caches:
            setting.notes[mode]["cached_bytes"] = engine.cached_bytes()
