-- name: set_gate
-- Move a gate, unless the request is known. What a rule closed is a person's from then on. A gate that opens little
-- by little obeys the newest request; one that is open for all needs no ramp. Waits for claims that run now, so that
-- none is missed by who counts what is in flight after a pause. Beside the gate stands what its request id was used
-- for. No row in the answer: the same request won a race, ask again.
with locked as materialized (
    select ascertain.lock_gate($1) is null as alone
),
request as (
    insert into ascertain.gate_requests (request_id, partition, paused, by, reason, at, ramp)
    select $5, $1, $2, $3, $4, ascertain.clock(), $6::interval from locked
    on conflict (request_id) do nothing
    returning *
),
changed as (
    insert into ascertain.gates as g (partition, paused, since, by, reason, closed_at)
    select r.partition, r.paused, r.at, r.by, r.reason, case when r.paused then r.at end
    from request as r
    on conflict (partition) do update set
        paused = excluded.paused,
        since = case when ascertain.stays(g, excluded.paused, excluded.since) then g.since else excluded.since end,
        by = case when ascertain.stays(g, excluded.paused, excluded.since) then g.by else excluded.by end,
        reason = case when ascertain.stays(g, excluded.paused, excluded.since) then g.reason else excluded.reason end,
        ramp_until = case
            when ascertain.stays(g, excluded.paused, excluded.since) then g.ramp_until
            else excluded.since + $6
        end,
        closed_at = case when g.paused then g.closed_at else coalesce(excluded.closed_at, g.closed_at) end,
        rule = null,
        probing = '{}'
    returning *
)
select *, false as already_applied, partition as used_partition, paused as used_paused from changed
union all
select g.*, true, r.partition, r.paused
from ascertain.gate_requests as r
join ascertain.gates as g on g.partition = r.partition
where r.request_id = $5 and not exists (select from request)

-- name: trip_gate
-- Close a gate on a rule. What a person closed stays theirs, and what was opened after the counting began stays
-- open; of a gate that a rule has closed already, one that still holds puts the probing off.
with locked as materialized (
    select ascertain.lock_gate($1) is null as alone
),
timed as materialized (
    select ascertain.clock() as now from locked
),
changed as (
    insert into ascertain.gates as g (
        partition, paused, since, by, reason, closed_at, rule, probes, probe_after, probe_from)
    select $1, true, t.now, $2, $3, t.now, $4::text, $5::integer, $6::interval, t.now + $6
    from timed as t
    on conflict (partition) do update set
        paused = true,
        since = case when g.paused then g.since else excluded.since end,
        by = excluded.by,
        reason = excluded.reason,
        closed_at = case when g.paused then g.closed_at else excluded.closed_at end,
        rule = excluded.rule,
        probes = excluded.probes,
        probe_after = excluded.probe_after,
        probe_from = excluded.probe_from,
        probing = '{}',
        ramp_until = null
    where case
        when g.paused then $8::boolean and g.rule is not null
        else g.since <= excluded.since - $7::interval
    end
    returning *
),
request as (
    insert into ascertain.gate_requests (request_id, partition, paused, by, reason, at)
    select 'breaker-' || gen_random_uuid(), c.partition, true, c.by, c.reason, c.since
    from changed as c
    join timed as t on c.since = t.now
)
select *, false as already_applied from changed

-- name: judge_probes
-- Open or close a gate by what the claims came to that it let through.
select *, false as already_applied from ascertain.judge_probes($1, $2)

-- name: doubts
-- What is in doubt, by partition and kind.
select
    e.partition, e.kind, count(*)::integer as count, max(greatest(c.now - e.state_since, interval '0')) as oldest
from ascertain.effects as e
cross join (select ascertain.clock() as now) as c
where e.state not in ('SETTLED', 'REFUSED', 'ABANDONED', 'SUPERSEDED') and e.state = 'UNKNOWN'
group by e.partition, e.kind
order by e.partition collate "C", e.kind collate "C"

-- name: note_outage
-- An outside could not be asked. How many effects wait for it, and since when. A lost one is noted again, so it
-- commits asynchronously.
with noted as (
    insert into ascertain.outages as o (partition, kind, since, reason)
    select $1, $2, ascertain.clock(), $3
    from (select set_config('synchronous_commit', 'off', true)) as commits
    on conflict (partition, kind) do update set
        since = case when o.ended_at is null then o.since else excluded.since end,
        reason = excluded.reason,
        ended_at = null
    returning *
)
select
    n.partition, n.kind, n.since, n.reason,
    (
        select count(*)::integer from ascertain.effects as e
        where e.state not in ('SETTLED', 'REFUSED', 'ABANDONED', 'SUPERSEDED')
            and e.state in ('UNKNOWN', 'ACCEPTED') and e.partition = n.partition and e.kind = n.kind
    ) as waiting
from noted as n

-- name: end_outage
-- An outside could be asked.
update ascertain.outages set ended_at = ascertain.clock()
where partition = $1 and kind = $2 and ended_at is null

-- name: outages
-- The outsides that cannot be asked, and for which something waits.
select o.partition, o.kind, o.since, o.reason, count(*)::integer as waiting
from ascertain.outages as o
join ascertain.effects as e on e.partition = o.partition and e.kind = o.kind
where o.ended_at is null and e.state not in ('SETTLED', 'REFUSED', 'ABANDONED', 'SUPERSEDED')
    and e.state in ('UNKNOWN', 'ACCEPTED')
group by o.partition, o.kind
order by o.partition collate "C", o.kind collate "C"

-- name: gates
-- Every gate that was ever closed.
select *, false as already_applied
from ascertain.gates
where closed_at is not null
order by partition

-- name: partitions
-- Every partition that was ever paused or has something open, and how much of it stands in which state;
-- costs what is open.
select
    partition, g.paused, g.since, g.by, g.reason, g.rule, g.probes, g.probe_after, g.probe_from, g.probing,
    g.ramp_until,
    coalesce(o.in_flight, 0) as in_flight, o.sending_until, coalesce(o.states, '{}') as states
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
