-- name: put_entry
-- Have a task started once the transaction around this commits.
insert into ascertain.outbox_entries (task_id, content, traceparent)
values (cast($1 as text), cast($2 as json), cast($3 as text))

-- name: take_entries
-- Take some entries that wait and that nobody has in hand, for a time; oldest first, passing over what
-- others take now. Entries whose relay ended again and again are asked for apart, by how often they were taken.
with chosen as materialized (
    select entry_id
    from ascertain.outbox_entries
    where started_at is null and set_aside_at is null
        and taken_until <= clock_timestamp() and takes >= $3 and takes < $4
    order by entry_id
    limit $1
    for update skip locked
)
update ascertain.outbox_entries as e set
    takes = e.takes + 1,
    taken_until = clock_timestamp() + $2::interval
from chosen
where e.entry_id = chosen.entry_id
returning e.entry_id, e.task_id, e.content::text as content, e.traceparent, e.takes

-- name: started_entries
-- Their tasks are durably started. A lost one is started again, which is safe, so it commits asynchronously.
with relaxed as materialized (
    select set_config('synchronous_commit', 'off', true) as commits
)
update ascertain.outbox_entries as e set started_at = clock_timestamp(), run_id = done.run_id
from relaxed, unnest($1::bigint[], $2::text[]) as done (entry_id, run_id)
where e.entry_id = done.entry_id and e.started_at is null and e.set_aside_at is null

-- name: return_entries
-- Nothing was wrong with them: whoever comes next may take them at once.
update ascertain.outbox_entries set takes = greatest(takes - 1, 0), taken_until = '-infinity'
where entry_id = any ($1::bigint[]) and started_at is null and set_aside_at is null

-- name: set_entry_aside
-- It cannot be started as it is; it waits for a person.
update ascertain.outbox_entries set set_aside_at = clock_timestamp(), reason = $2
where entry_id = $1 and started_at is null and set_aside_at is null

-- name: entries_set_aside
-- What waits for a person, oldest first.
select entry_id, task_id, put_at, set_aside_at, takes, reason
from ascertain.outbox_entries
where set_aside_at is not null
order by entry_id
limit $1

-- name: try_entries_again
-- A person says that they can be started now.
update ascertain.outbox_entries
set set_aside_at = null, reason = null, takes = 0, taken_until = '-infinity'
where set_aside_at is not null and ($1::bigint[] is null or entry_id = any ($1))
returning entry_id

-- name: prune_entries
-- Let go of some entries whose tasks were started long ago.
delete from ascertain.outbox_entries
where entry_id in (
    select entry_id from ascertain.outbox_entries
    where started_at < clock_timestamp() - $1::interval
    limit 1000
    for update skip locked)
returning entry_id

-- name: outbox_lag
-- How far the relays are behind: what waits, and for how long the oldest of it.
select
    count(*) as waiting,
    count(*) filter (where taken_until > clock_timestamp()) as in_hand,
    coalesce(clock_timestamp() - min(put_at), interval '0') as lag,
    (select count(*) from ascertain.outbox_entries where set_aside_at is not null) as set_aside
from ascertain.outbox_entries
where started_at is null and set_aside_at is null

-- name: outbox_started
-- How many of the kept entries were started.
select count(*) as started from ascertain.outbox_entries where started_at is not null
