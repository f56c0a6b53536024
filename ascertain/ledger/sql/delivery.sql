-- name: count_delivery
-- One more delivery of a request whose task was there already.
insert into ascertain.deliveries as d (task_id, message_id, fate, fingerprint, count, first_at, last_at)
values ($1, $2, $3, $4, 1, ascertain.clock(), ascertain.clock())
on conflict (task_id, message_id, fate, fingerprint) do update
set count = d.count + 1, last_at = greatest(d.last_at, excluded.last_at)
returning d.count

-- name: deliveries
-- What was delivered again of a task, oldest first.
select task_id, message_id, fate, fingerprint, count, first_at, last_at
from ascertain.deliveries
where task_id = $1
order by first_at, message_id
