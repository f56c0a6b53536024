-- name: set_gate
-- Move a gate, unless the request is known. Waits for claims that run now, so that none is missed by who
-- counts what is in flight after a pause. No row in the answer: the same request won a race, ask again.
with locked as materialized (
    select ascertain.lock_gate($1) is null as alone
),
request as (
    insert into ascertain.gate_requests (request_id, partition, paused, by, reason, at)
    select $5, $1, $2, $3, $4, ascertain.clock() from locked
    on conflict (request_id) do nothing
    returning *
),
changed as (
    insert into ascertain.gates as g (partition, paused, since, by, reason, closed_at)
    select r.partition, r.paused, r.at, r.by, r.reason, case when r.paused then r.at end
    from request as r
    on conflict (partition) do update set
        paused = excluded.paused,
        since = case when g.paused = excluded.paused then g.since else excluded.since end,
        by = case when g.paused = excluded.paused then g.by else excluded.by end,
        reason = case when g.paused = excluded.paused then g.reason else excluded.reason end,
        closed_at = case when g.paused then g.closed_at else coalesce(excluded.closed_at, g.closed_at) end
    returning *
)
select partition, paused, since, by, reason, false as already_applied from changed
union all
select g.partition, g.paused, g.since, g.by, g.reason, true
from ascertain.gate_requests as r
join ascertain.gates as g on g.partition = r.partition
where r.request_id = $5 and not exists (select from request)

-- name: gates
-- Every gate that was ever closed.
select partition, paused, since, by, reason, false as already_applied
from ascertain.gates
where closed_at is not null
order by partition

-- name: partitions
-- Every partition that was ever paused or has something open, and how much of it stands in which state;
-- costs what is open.
select
    partition, g.paused, g.since, g.by, g.reason, coalesce(o.in_flight, 0) as in_flight, o.sending_until,
    coalesce(o.states, '{}') as states
from (select * from ascertain.gates where closed_at is not null) as g
full join (
    select
        partition, sum(count) filter (where state = 'IN_FLIGHT')::integer as in_flight,
        max(sending_until) as sending_until, jsonb_object_agg(state, count) as states
    from (
        select
            partition, state, count(*) as count,
            max(lease_until) filter (where state = 'IN_FLIGHT') as sending_until
        from ascertain.effects
        where state not in ('SETTLED', 'REFUSED', 'ABANDONED', 'SUPERSEDED')
        group by partition, state
    ) as e
    group by partition
) as o using (partition)
order by partition
