-- name: record
-- Write what an attempt came to, if it is still the owner's; otherwise keep what it knew in the trail,
-- unless it is there already because this is a repeat whose first answer was lost.
-- A refused write is rare and may hold the only proof of a fact, so it is durable whatever is asked.
with locked as materialized (
    select * from ascertain.effects where effect_id = $1 for update
),
standing as materialized (
    select * from locked
    union all
    select * from ascertain.archived(array[$1])
    where not exists (select from locked) and exists (select from ascertain.archived_effects where effect_id = $1)
),
timed as materialized (
    select s.*, a.applies, ascertain.clock() as now,
        case
            when a.applies then false
            else ascertain.was_recorded($1, $2::integer, $3::text, $5::text, $7::jsonb, $8::jsonb)
        end as repeats,
        case when a.applies and not $15::boolean then set_config('synchronous_commit', 'off', true) end as commits
    from standing as s
    cross join lateral (
        select s.state = 'IN_FLIGHT' and s.lease_version = $2::integer as applies
    ) as a
),
moved as (
    update ascertain.effects as e set
        state = $6::text,
        state_since = t.now,
        version = e.version + 1,
        -- Doubt is its owner's word that the permit is used: nothing can be sent under it any more.
        lease_until = case when $6 = 'UNKNOWN' then least(e.lease_until, t.now) else e.lease_until end,
        retry_at = t.now + $13::interval,
        job_id = coalesce($12::text, e.job_id),
        receipt = $8::jsonb,
        external_id = $9::text,
        happened_at = $10::timestamptz,
        error_class = $11::text,
        evidence = $7::jsonb,
        evidence_version = e.version + 1
    from timed as t
    where e.effect_id = t.effect_id and t.applies
    returning e.*
),
trail as (
    insert into ascertain.audit_events (
        effect_id, move, actor, from_state, to_state, version, lease_version, attempt, evidence, receipt, at)
    select
        t.effect_id, case when t.applies then $5::text else 'refused_write' end, $3::text, t.state,
        case when t.applies then $6 else t.state end, t.version + t.applies::integer, $2,
        case when t.applies then t.attempt else $4::integer end,
        case when t.applies then $7 else $14::jsonb end, $8, t.now
    from timed as t
    where not t.repeats
)
select t.applies or t.repeats as applies, t.now, r.*
from timed as t
cross join (
    select * from moved
    union all select * from standing where not exists (select from moved)
) as r

-- name: renew
-- Lengthen an open claim, if it is still the owner's and, where it rests on its key, if that protects so long,
-- and if no gate stops its dispatch.
with locked as materialized (
    select * from ascertain.effects where effect_id = $1 for update
),
standing as materialized (
    select * from locked
    union all
    select * from ascertain.archived(array[$1])
    where not exists (select from locked) and exists (select from ascertain.archived_effects where effect_id = $1)
),
timed as materialized (
    select s.*, ascertain.clock() as now from standing as s
),
held as materialized (
    select t.*,
        t.state = 'IN_FLIGHT' and t.lease_version = $2::integer
        and (t.evidence ->> 'rule' not in ('resend', 'absent_keyed') or t.now + $5::interval <= t.resend_until) as holds
    from timed as t
),
gated as materialized (
    select h.*, case when h.holds then ascertain.renewal_gate_of(h.partition, $1) end as gate from held as h
),
judged as materialized (
    select g.*, g.holds and (g.gate).partition is null as applies from gated as g
),
moved as (
    update ascertain.effects as e set
        version = e.version + 1,
        lease_until = greatest(e.lease_until, j.now + $5),
        last_heartbeat_at = j.now
    from judged as j
    where e.effect_id = j.effect_id and j.applies
    returning e.*
),
trail as (
    insert into ascertain.audit_events (
        effect_id, move, actor, from_state, to_state, version, lease_version, attempt, evidence, at)
    select
        j.effect_id, case when j.applies then 'renew' else 'refused_write' end, $3::text, j.state,
        j.state, j.version + j.applies::integer, $2,
        case when j.applies then j.attempt else $4::integer end,
        case when j.applies then $6::jsonb else $7::jsonb end, j.now
    from judged as j
    where j.applies or not j.holds
)
select
    j.applies, j.now, case when (j.gate).partition is not null then to_jsonb(j.gate) end as gate, r.*
from judged as j
cross join (
    select * from moved
    union all select * from standing where not exists (select from moved)
) as r

-- name: converge
-- Move an effect by its expected version: what reconciliation found, what a person decided, a fence.
with locked as materialized (
    select * from ascertain.effects where effect_id = $1 for update
),
standing as materialized (
    select * from locked
    union all
    select * from ascertain.archived(array[$1])
    where not exists (select from locked) and exists (select from ascertain.archived_effects where effect_id = $1)
),
timed as materialized (
    select s.*, ascertain.clock() as now from standing as s
),
judged as materialized (
    select t.*,
        t.version = $2::integer and t.state = any ($6::text[])
        and (t.state <> 'TAKEN_OVER' or t.taken_by = $3::text)
        and ($4::text <> 'supersede' or not ascertain.has_late_receipt(t.effect_id))
        and ($4::text <> 'fence' or t.lease_until <= t.now) as applies
    from timed as t
),
moved as (
    update ascertain.effects as e set
        state = $5::text,
        state_since = j.now,
        version = e.version + 1,
        budget_from = case when $4 in ('retry', 'deny') then e.attempt else e.budget_from end,
        lease_version = e.lease_version + ($4 = 'fence')::integer,
        retry_at = j.now + $13::interval,
        job_id = coalesce($12::text, e.job_id),
        receipt = case when $5 = 'SETTLED' then $8::jsonb end,
        external_id = case when $5 = 'SETTLED' then $9::text end,
        happened_at = case when $5 = 'SETTLED' then $10::timestamptz end,
        error_class = case when $4 = 'fence' and j.lease_owner = 'restored' then j.lease_owner else $11::text end,
        -- What was begun by no worker was left by none: why it began in doubt still stands.
        evidence = case when $4 = 'fence' and j.lease_owner = 'restored' then e.evidence else $7::jsonb end,
        evidence_version = e.version + 1,
        taken_by = case
            when $4 = 'take' then $3
            when $4 in ('deny', 'retry', 'release') then null
            else e.taken_by
        end,
        superseded_by = case when $4 = 'supersede' then $14::text end
    from judged as j
    where e.effect_id = j.effect_id and j.applies
    returning e.*
),
trail as (
    insert into ascertain.audit_events (
        effect_id, move, actor, from_state, to_state, version, lease_version, attempt, evidence, receipt, at)
    select
        r.effect_id, $4, $3, j.state, r.state, r.version, r.lease_version, r.attempt, r.evidence, $8, j.now
    from moved as r
    cross join judged as j
)
select j.applies, j.now, r.*
from judged as j
cross join (
    select * from moved
    union all select * from standing where not exists (select from moved)
) as r

-- name: withdraw
-- Close an effect for good of which nothing exists and nothing is under way, also before its first claim.
-- No row in the answer means that a first claim won the race after the snapshot: ask again. Nothing at all is told
-- of one that a restored ledger may have forgotten: that is asked for first.
with locked as materialized (
    select * from ascertain.effects where effect_id = $1 for update
),
standing as materialized (
    select * from locked
    union all
    select * from ascertain.archived(array[$1])
    where not exists (select from locked) and exists (select from ascertain.archived_effects where effect_id = $1)
),
judged as materialized (
    select s.*, ascertain.clock() as now,
        case
            when s.effect_id is null then l.lost_since is null
            when s.fingerprint = $2::text and s.state = 'CLEAR'
            then l.lost_since is null and not ascertain.has_late_receipt(s.effect_id)
            else false
        end as applies,
        l.lost_since
    from (values (true)) as one (always)
    left join standing as s on always
    cross join lateral (
        select case
            when s.effect_id is null
            then (select min(p.since) from ascertain.epochs as p where p.until > coalesce($11::timestamptz, '-infinity'))
            when s.state = 'CLEAR'
            then (select min(p.since) from ascertain.epochs as p where p.raised_at > s.state_since)
        end as lost_since
    ) as l
),
first as (
    insert into ascertain.effects (
        effect_id, task_id, message_id, step, revision, kind, partition, state, state_since, version,
        attempt, lease_owner, lease_version, lease_until, first_sent_at, fingerprint, frozen, evidence,
        evidence_version, created_at)
    select
        $1, $5::text, $6::text, $7::text, $8::integer, $9::text, $10::text, 'ABANDONED', j.now, 1,
        0, $3::text, 0, j.now, j.now, $2, '', $4::jsonb, 1, j.now
    from judged as j
    where j.effect_id is null and j.applies
    on conflict (effect_id) do nothing
    returning *
),
moved as (
    update ascertain.effects as e set
        state = 'ABANDONED',
        state_since = j.now,
        version = e.version + 1,
        retry_at = null,
        error_class = null,
        evidence = $4,
        evidence_version = e.version + 1
    from judged as j
    where e.effect_id = j.effect_id and j.applies
    returning e.*
),
trail as (
    insert into ascertain.audit_events (
        effect_id, move, actor, from_state, to_state, version, lease_version, attempt, evidence, at)
    select
        r.effect_id, 'withdraw', $3, j.state, r.state, r.version, r.lease_version, r.attempt, $4, j.now
    from (select * from first union all select * from moved) as r
    cross join judged as j
)
select j.applies, j.now, j.lost_since, r.*
from judged as j
left join (
    select * from first
    union all select * from moved
    union all select * from standing where not exists (select from moved)
) as r on true
