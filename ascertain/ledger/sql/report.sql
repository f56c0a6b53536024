-- name: inspect
-- One effect with the receipts that fenced owners brought too late, and when a restore last made it unsure what
-- had been sent.
select
    e.*, ascertain.clock() as now,
    (select max(p.raised_at) from ascertain.epochs as p where p.raised_at > e.created_at) as raised_at,
    (
        select jsonb_agg(jsonb_build_object(
            'effect_id', a.effect_id, 'seq', a.seq, 'move', a.move, 'actor', a.actor,
            'from_state', a.from_state, 'to_state', a.to_state, 'version', a.version,
            'lease_version', a.lease_version, 'attempt', a.attempt, 'evidence', a.evidence,
            'receipt', a.receipt, 'at', a.at, 'hash', encode(a.hash, 'hex')) order by a.seq)
        from ascertain.audit_events as a
        where a.effect_id = e.effect_id and a.move = 'refused_write' and a.receipt is not null
    ) as late
from ascertain.known_effects as e
where e.effect_id = $1

-- name: open_effects
-- Effects in some of the open states, newest state first; costs what is open.
select e.*, c.now
from ascertain.effects as e
cross join (select ascertain.clock() as now) as c
where e.state not in ('SETTLED', 'REFUSED', 'ABANDONED', 'SUPERSEDED')
    and e.state = any ($1::text[])
    and ($2::text is null or e.partition = $2)
    and ($3::text is null or e.kind = $3)
    and ($4::text is null or e.task_id = $4)
order by e.state_since desc, e.effect_id
limit $5

-- name: quiet_effects
-- A page of effects that have been in an open state for long and whose permit is over, oldest first.
select e.*, c.now
from ascertain.effects as e
cross join (select ascertain.clock() as now) as c
where e.state not in ('SETTLED', 'REFUSED', 'ABANDONED', 'SUPERSEDED')
    and e.state = $1
    and e.state_since >= coalesce($3::timestamptz, '-infinity')
    and ($3::timestamptz is null or (e.state_since, e.effect_id) > ($3, $4::text))
    and e.state_since <= c.now - $2::interval
    and e.lease_until <= c.now
order by e.state_since, e.effect_id
limit $5

-- name: task_effects
-- The effects of one task, newest state first.
select e.*, c.now
from (
    select * from ascertain.known_effects where task_id = $4 and state <> 'SUPERSEDED'
    union all
    select * from ascertain.known_effects where task_id = $4 and state = 'SUPERSEDED'
) as e
cross join (select ascertain.clock() as now) as c
where ($1::text[] is null or e.state = any ($1))
    and ($2::text is null or e.partition = $2)
    and ($3::text is null or e.kind = $3)
order by e.state_since desc, e.effect_id
limit $5

-- name: all_effects
-- Effects in any state, newest state first; reads the whole table.
select e.*, c.now
from ascertain.known_effects as e
cross join (select ascertain.clock() as now) as c
where ($1::text[] is null or e.state = any ($1))
    and ($2::text is null or e.partition = $2)
    and ($3::text is null or e.kind = $3)
    and ($4::text is null or e.task_id = $4)
order by e.state_since desc, e.effect_id
limit $5

-- name: one_effect
-- One effect as it stands.
select e.*, ascertain.clock() as now from ascertain.known_effects as e where e.effect_id = $1

-- name: proved
-- Which of these facts outside prove an effect of this kind.
select e.external_id
from ascertain.known_effects as e
where e.kind = $1 and e.external_id = any ($2::text[]) and e.state = 'SETTLED'

-- name: proved_by
-- The effect of this kind that a fact outside proves.
select e.effect_id, e.task_id
from ascertain.known_effects as e
where e.kind = $1 and e.external_id = $2 and e.state = 'SETTLED'

-- name: live_in_step
-- The fingerprint of another effect that is the live one of a task's step.
select e.fingerprint
from ascertain.known_effects as e
where e.task_id = $1 and e.step = $2 and e.state <> 'SUPERSEDED' and e.effect_id <> $3

-- name: open_trails
-- Effects in some of the open states with their trails, by effect_id behind a given one. One statement, so
-- that row and trail are of one moment.
select e.*, ascertain.clock() as now,
    (
        select jsonb_agg(jsonb_build_object(
            'effect_id', a.effect_id, 'seq', a.seq, 'move', a.move, 'actor', a.actor,
            'from_state', a.from_state, 'to_state', a.to_state, 'version', a.version,
            'lease_version', a.lease_version, 'attempt', a.attempt, 'evidence', a.evidence,
            'receipt', a.receipt, 'at', a.at, 'hash', encode(a.hash, 'hex')) order by a.seq)
        from ascertain.audit_events as a
        where a.effect_id = e.effect_id
    ) as trail
from (
    select * from ascertain.effects
    where state not in ('SETTLED', 'REFUSED', 'ABANDONED', 'SUPERSEDED')
        and state = any ($1::text[])
        and ($2::text is null or partition = $2)
        and ($3::text is null or kind = $3)
        and ($4::text is null or task_id = $4)
        and effect_id > $6
    order by effect_id
    limit $5
) as e
order by e.effect_id

-- name: all_trails
-- Effects in any state with their trails, by effect_id behind a given one; all pages read the table once.
select e.*, ascertain.clock() as now,
    (
        select jsonb_agg(jsonb_build_object(
            'effect_id', a.effect_id, 'seq', a.seq, 'move', a.move, 'actor', a.actor,
            'from_state', a.from_state, 'to_state', a.to_state, 'version', a.version,
            'lease_version', a.lease_version, 'attempt', a.attempt, 'evidence', a.evidence,
            'receipt', a.receipt, 'at', a.at, 'hash', encode(a.hash, 'hex')) order by a.seq)
        from ascertain.audit_events as a
        where a.effect_id = e.effect_id
    ) as trail
from (
    select * from ascertain.known_effects
    where ($1::text[] is null or state = any ($1))
        and ($2::text is null or partition = $2)
        and ($3::text is null or kind = $3)
        and ($4::text is null or task_id = $4)
        and effect_id > $6
    order by effect_id
    limit $5
) as e
order by e.effect_id
