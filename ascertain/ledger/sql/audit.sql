-- name: audit
-- The whole trail of one effect, oldest first.
select
    effect_id, seq, move, actor, from_state, to_state, version, lease_version, attempt, evidence, receipt,
    at, encode(hash, 'hex') as hash
from ascertain.audit_events
where effect_id = $1
order by seq

-- name: note
-- Append an observation that moves nothing, if the effect is known. What a person said is durable; all else
-- can be observed again, so it commits asynchronously.
with locked as materialized (
    select *,
        case when $3::jsonb ->> 'source' <> 'person' then set_config('synchronous_commit', 'off', true) end as commits
    from ascertain.effects where effect_id = $1 for update
),
standing as materialized (
    select effect_id, state, version, lease_version, attempt from locked
    union all
    select effect_id, state, version, lease_version, attempt
    from ascertain.archived_rows where effect_id = $1 and not exists (select from locked)
)
insert into ascertain.audit_events (
    effect_id, move, actor, from_state, to_state, version, lease_version, attempt, evidence, at)
select
    effect_id, 'note', $2, state, state, version, lease_version, attempt, $3::jsonb, ascertain.clock()
from standing
returning seq
