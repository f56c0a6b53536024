-- name: raise_epoch
-- Have what may have been done unknown to the ledger asked for, once for each request. What is refused for its
-- times comes back with neither answer.
with timed as materialized (
    select ascertain.clock() as now
),
raised as (
    insert into ascertain.epochs (request_id, since, raised_at, until, by, reason)
    select $1, $2, t.now, greatest($3::timestamptz, t.now + $4::interval), $5, $6
    from timed as t
    where $2::timestamptz <= t.now and ($3::timestamptz is null or $3::timestamptz >= t.now)
    on conflict (request_id) do nothing
    returning *
),
known as (
    select * from ascertain.epochs where request_id = $1
)
select *, false as already_applied from raised
union all
select *, true from known where not exists (select from raised)
union all
select $1, $2::timestamptz, t.now, $3::timestamptz, $5, $6, null
from timed as t
where not exists (select from known) and ($2::timestamptz > t.now or $3::timestamptz < t.now)
