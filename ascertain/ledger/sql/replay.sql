-- name: select_items
-- Add every effect that fits to a replay; what is there stays as it is.
insert into ascertain.replay_items (
    replay_id, effect_id, task_id, kind, partition, state, version, attempt, result, detail, passes, changed_at)
select
    $1, e.effect_id, e.task_id, e.kind, e.partition, e.state, e.version, e.attempt, 'WAITING', '', false,
    ascertain.clock()
from ascertain.effects as e
where e.state not in ('SETTLED', 'REFUSED', 'ABANDONED', 'SUPERSEDED')
    and e.state = any ($2::text[])
    and ($3::text is null or e.partition = $3)
    and ($4::text is null or e.kind = $4)
    and ($5::text is null or e.error_class = $5)
    and ($6::text[] is null or e.task_id = any ($6))
    and ($7::text[] is null or e.effect_id = any ($7))
on conflict do nothing

-- name: unasked_kinds
-- How many items of each kind were not asked for yet.
select kind, count(*) as items
from ascertain.replay_items
where replay_id = $1 and outlook is null
group by kind
order by kind

-- name: unasked_items
-- The next items of a kind that were not asked for yet.
select *
from ascertain.replay_items
where replay_id = $1 and kind = $2 and outlook is null
order by effect_id
limit $3

-- name: foresee_item
-- What the dry run says of an item, once.
update ascertain.replay_items set
    outlook = $3, result = $4, detail = $5, changed_at = ascertain.clock()
where replay_id = $1 and effect_id = $2 and outlook is null
returning effect_id

-- name: take_item
-- The next waiting item, for a batch that is not full. One activity takes for a replay at a time, and a
-- second one, whose worker was thawed, takes others. Materialized: a join may read a sub-select again, and
-- take more than the one.
with taken as materialized (
    select count(*) as items from ascertain.replay_items where replay_id = $1 and batch = $2::integer
),
next as materialized (
    select i.effect_id
    from ascertain.replay_items as i
    where i.replay_id = $1 and i.result = 'WAITING' and i.outlook is not null
        and (select t.items from taken as t) < $3::integer
    order by i.effect_id
    limit 1
    for update skip locked
)
update ascertain.replay_items as i set
    result = 'STARTED', batch = $2, passes = $4::boolean, changed_at = ascertain.clock()
from next as n
where i.replay_id = $1 and i.effect_id = n.effect_id
returning i.*

-- name: begun_items
-- What was told and is not known to have come to rest, with the effects as they stand.
select
    i.*, e.state as state_now, e.version as version_now, e.attempt as attempt_now,
    coalesce(e.evidence ->> 'detail', '') as detail_now
from ascertain.replay_items as i
join ascertain.known_effects as e using (effect_id)
where i.replay_id = $1 and i.result in ('STARTED', 'OPEN')
order by i.effect_id

-- name: finish_item
-- What became of an item that was told.
update ascertain.replay_items set
    result = $3, detail = $4, changed_at = ascertain.clock()
where replay_id = $1 and effect_id = $2 and result in ('STARTED', 'OPEN')
returning effect_id

-- name: tally_items
-- All items of a replay, counted.
select outlook, result, count(*) as items
from ascertain.replay_items
where replay_id = $1
group by outlook, result

-- name: waiting_items
-- How many items of each partition have not come to rest.
select partition, count(*) as items
from ascertain.replay_items
where replay_id = $1 and result in ('WAITING', 'STARTED', 'OPEN')
group by partition
order by partition collate "C"

-- name: replay_items
-- A page of the per-item report.
select *
from ascertain.replay_items
where replay_id = $1 and effect_id > $2
order by effect_id
limit $3
