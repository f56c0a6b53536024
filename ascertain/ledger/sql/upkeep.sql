-- name: settled_page
-- A page of what proves the settled effects of a kind, by the outside's id.
select e.effect_id, e.external_id
from ascertain.known_effects as e
where e.kind = $1 and e.state = 'SETTLED' and e.external_id is not null and e.external_id > $3::text
    and ($2::timestamptz is null or e.first_sent_at >= $2)
    and e.state_since <= ascertain.clock() - $5::interval
order by e.external_id
limit $4

-- name: standing
-- Where some effects stand.
select e.effect_id, e.kind, e.state from ascertain.known_effects as e where e.effect_id = any ($1::text[])

-- name: tallies
-- What is unresolved, by partition and state, and how long the oldest has been so.
select e.partition, e.state, count(*) as count, ascertain.clock() - min(e.state_since) as stuck_for
from ascertain.effects as e
where e.state not in ('SETTLED', 'REFUSED', 'ABANDONED', 'SUPERSEDED') and e.state = any ($1::text[])
group by e.partition, e.state
order by e.partition, e.state

-- name: effects_page
-- A page of all effects by id.
select e.*, ascertain.clock() as now
from ascertain.known_effects as e
where e.effect_id > $1
order by e.effect_id
limit $2

-- name: trails_page
-- The trails of some effects, each oldest event first.
select
    effect_id, seq, move, actor, from_state, to_state, version, lease_version, attempt, evidence, receipt,
    at, encode(hash, 'hex') as hash
from ascertain.audit_events
where effect_id = any ($1::text[])
order by effect_id, seq

-- name: archive_page
-- Archive what has been settled for long from one page of effects; or only count it.
select seen, archived, last from ascertain.archive_page($1, $2::interval, $3::integer, $4::boolean)
