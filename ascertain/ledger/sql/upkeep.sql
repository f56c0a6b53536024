-- name: origin
-- Which ledger this is: when its tables were made, and in which database, for a copy of it stands in another.
select extract(epoch from m.applied_at)::text || ' ' || d.oid::text as origin
from ascertain.migrations as m
join pg_database as d on d.datname = current_database()
order by m.name collate "C"
limit 1

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
-- What is open in some of the states, by kind, partition and state, and how long the oldest has been so.
select
    e.kind, e.partition, e.state, count(*) as count, ascertain.clock() - min(e.state_since) as stuck_for
from ascertain.effects as e
where e.state not in ('SETTLED', 'REFUSED', 'ABANDONED', 'SUPERSEDED') and e.state = any ($1::text[])
group by e.kind, e.partition, e.state
order by e.partition, e.state, e.kind

-- name: keep_census
-- Keep a census unless a later one of its kind is kept already.
insert into ascertain.censuses as c (kind, taken_at, report) values ($1, ascertain.clock(), $2::jsonb)
on conflict (kind) do update set taken_at = excluded.taken_at, report = excluded.report
where c.taken_at <= excluded.taken_at

-- name: censuses
-- The last census of each kind, and how long ago it was taken.
select c.kind, c.report, ascertain.clock() - c.taken_at as age from ascertain.censuses as c order by c.kind

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

-- name: quarantined
-- What waits for a person, by its cause: kind, partition, error class, and what the outside last said of it.
select
    kind, partition, coalesce(error_class, '') as error_class, answer, count(*) as count,
    min(state_since) as oldest_since, ascertain.clock() - min(state_since) as age,
    (array_agg(task_id order by state_since, effect_id))[1:5] as examples
from (
    select
        e.*,
        coalesce(
            case
                when said.evidence ->> 'source' = 'lookup' then said.evidence ->> 'rule'
                else left(coalesce(nullif(said.evidence ->> 'detail', ''), said.evidence ->> 'rule'), 100)
            end,
            '') as answer
    from ascertain.effects as e
    left join lateral (
        select a.evidence
        from ascertain.audit_events as a
        where a.effect_id = e.effect_id and a.evidence ->> 'source' in ('answer', 'phase', 'lookup')
        order by a.seq desc
        limit 1
    ) as said on true
    where e.state = 'QUARANTINED'
        and ($1::text is null or e.partition = $1) and ($2::text[] is null or e.task_id = any ($2::text[]))
) as waiting
group by kind, partition, coalesce(error_class, ''), answer
order by count desc, oldest_since

-- name: archive_page
-- Archive what has been settled for long from one page of effects; or only count it.
select seen, archived, last from ascertain.archive_page($1, $2::interval, $3::integer, $4::boolean)

-- name: measured
-- How long attempts took, how late what happened was found, and how long effects stood in flight or in doubt, by
-- kind, over some effects in the order of their ids, which are hashes: a random sample. Of archived ones too, whose
-- trails stay whole.
with sample as materialized (
    select effect_id, kind, greatest(coalesce(happened_at, first_sent_at), created_at) as happened
    from ascertain.known_effects order by effect_id limit $1
),
moves as (
    select
        s.effect_id, s.kind, a.move, a.from_state, a.to_state, a.evidence ->> 'rule' as rule,
        extract(epoch from a.at - s.happened)::float8 as late_s,
        extract(epoch from lead(a.at) over later - a.at)::float8 as lasted_s,
        lead(a.move) over later as followed_by
    from sample as s
    join ascertain.audit_events as a using (effect_id)
    where a.move not in ('refused_write', 'note', 'renew')
    window later as (partition by a.effect_id order by a.seq)
)
select
    kind, count(distinct effect_id) as effects,
    count(*) filter (where rule = 'permit_lost') as unsent,
    max(late_s) filter (where move = 'find' and from_state = 'CLEAR') as denied_s,
    count(*) filter (
        where to_state = 'IN_FLIGHT' and followed_by in ('settle', 'refuse', 'accept', 'clear', 'doubt')
    ) as attempts,
    percentile_disc(array[0.5, 0.99, 0.999, 1]) within group (order by lasted_s) filter (
        where to_state = 'IN_FLIGHT' and followed_by in ('settle', 'refuse', 'accept', 'clear', 'doubt')
    ) as attempts_s,
    count(*) filter (where move = 'find') as found,
    percentile_disc(array[0.5, 0.99, 0.999, 1]) within group (order by greatest(late_s, 0)) filter (
        where move = 'find'
    ) as lateness_s,
    count(lasted_s) filter (where to_state in ('IN_FLIGHT', 'UNKNOWN')) as stood,
    percentile_disc(array[0.5, 0.99, 0.999, 1]) within group (order by lasted_s) filter (
        where to_state in ('IN_FLIGHT', 'UNKNOWN')
    ) as stood_s
from moves
group by kind
order by kind
