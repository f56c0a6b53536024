-- name: raise_epoch
-- Have what may have been done unknown to the ledger asked for, once for each request.
with raised as (
    insert into ascertain.epochs (request_id, since, raised_at, until, by, reason)
    select $1, $2, c.now, greatest($3::timestamptz, c.now + $4::interval), $5, $6
    from (select ascertain.clock() as now) as c
    on conflict (request_id) do nothing
    returning *
)
select *, false as already_applied from raised
union all
select *, true from ascertain.epochs where request_id = $1 and not exists (select from raised)
