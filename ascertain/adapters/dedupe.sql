-- name: create_table
-- The record of what was applied; lives in the target database and is written in the change's own transaction.
create table if not exists ascertain_effects (
    effect_id text primary key,
    request_sha256 text not null,
    result jsonb,
    applied_at timestamptz not null default clock_timestamp()
);

-- name: record
-- Nothing comes back if the effect was applied before.
insert into ascertain_effects (effect_id, request_sha256) values ($1, $2)
on conflict (effect_id) do nothing
returning effect_id;

-- name: keep_result
-- What the statements returned, so that a lookup can tell it too.
update ascertain_effects set result = $2 where effect_id = $1;

-- name: find
-- The record of one effect.
select request_sha256, result, applied_at from ascertain_effects where effect_id = $1;
