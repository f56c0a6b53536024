-- name: claim
-- Ask for the permit to dispatch: lock the row, judge it, then move it and tell the trail, or change nothing.
-- "for update" sees the newest version of the row, whatever the statement's snapshot; what else must be
-- newer than the snapshot is asked through functions. No row at all in the answer of a grant means that
-- another first claim won the race after the snapshot: ask again.
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
    select s.*, ascertain.clock() as now,
        case
            when s.effect_id is null
            then (select min(p.since) from ascertain.epochs as p where p.until > coalesce($19::timestamptz, '-infinity'))
            when s.state = 'CLEAR'
            then (select min(p.since) from ascertain.epochs as p where p.raised_at > s.state_since)
        end as lost_since,
        -- As was promised at the first send, or less, if less is promised by now.
        case
            when $7::boolean or s.resend_until is null then s.resend_until
            when $6::interval is not null then least(s.resend_until, s.first_sent_at + $6)
        end as key_until
    from (values (true)) as one (always)
    left join standing as s on always
),
wished as materialized (
    select t.*,
        case
            when t.fingerprint <> $2::text then 'conflict'
            -- A ledger that was restored may have forgotten it: it begins in doubt, and nothing is sent.
            when t.lost_since is not null then 'restored'
            when t.effect_id is null then 'claim'
            when t.state = 'SETTLED' then 'settled'
            when t.state in ('REFUSED', 'ABANDONED', 'SUPERSEDED') then 'refused'
            when t.state = 'TAKEN_OVER' then 'taken_over'
            when t.state = 'IN_FLIGHT' and t.lease_until <= t.now then 'fence'
            when t.state = 'IN_FLIGHT' and t.lease_owner = $3::text then 'again'
            when t.state = 'IN_FLIGHT' then 'busy'
            when t.state = 'UNKNOWN' and $8::boolean and t.now + $4::interval <= t.key_until then 'resend'
            when t.state = 'CLEAR' and t.retry_at > t.now then 'unresolved'
            -- Absence that was concluded because the key protects is worth nothing once it does not.
            when t.state = 'CLEAR' and t.evidence ->> 'rule' = 'absent_keyed'
                and (t.now + $4::interval <= t.key_until) is not true then 'unresolved'
            when t.state = 'CLEAR' and not ascertain.has_late_receipt(t.effect_id) then 'claim'
            else 'unresolved'
        end as wish
    from timed as t
),
gated as materialized (
    select w.*,
        case
            when w.wish in ('claim', 'resend')
            then ascertain.closed_gate_of(coalesce(w.partition, $9::text), $1)
        end as gate
    from wished as w
),
judged as materialized (
    select g.*, a.answer, a.answer in ('claim', 'resend') as granted
    from gated as g
    cross join lateral (
        select case
            when g.wish not in ('claim', 'resend') then g.wish
            when (g.gate).partition is not null then 'paused'
            when g.attempt - g.budget_from >= $5::integer then 'quarantine'
            else g.wish
        end as answer
    ) as a
),
first as (
    insert into ascertain.effects (
        effect_id, task_id, message_id, step, revision, kind, partition, state, state_since, version,
        attempt, budget_from, lease_owner, lease_version, lease_until, first_sent_at, resend_until, fingerprint,
        frozen, evidence, evidence_version, trace_id, created_at, task_fingerprint)
    select
        $1, $11::text, $12::text, $13::text, $14::integer, $15::text, $9, 'IN_FLIGHT', j.now, 1,
        1, (j.answer = 'restored')::integer, case when j.granted then $3 else j.answer end, 1,
        case when j.granted then j.now + $4 else j.now end, b.first_sent_at,
        case when $7::boolean then timestamptz 'infinity' else b.first_sent_at + $6::interval end, $2,
        $16::bytea, $10::jsonb -> j.answer, 1, $17::text, j.now, $18::text
    from judged as j
    cross join lateral (
        select least(
            j.now, $20::timestamptz, greatest(j.lost_since, case when not j.granted then $19 end)) as first_sent_at
    ) as b
    where j.answer in ('claim', 'restored') and j.effect_id is null
    on conflict (effect_id) do nothing
    returning *
),
moved as (
    update ascertain.effects as e set
        state = case j.answer when 'fence' then 'UNKNOWN' when 'quarantine' then 'QUARANTINED' else 'IN_FLIGHT' end,
        state_since = j.now,
        version = e.version + 1,
        attempt = e.attempt + (j.granted or j.answer = 'restored')::integer,
        -- What may have been forgotten was granted by nobody here.
        budget_from = e.budget_from + (j.answer = 'restored')::integer,
        lease_owner = case when j.granted then $3 when j.answer = 'restored' then j.answer else e.lease_owner end,
        lease_version = e.lease_version + (j.answer <> 'quarantine')::integer,
        lease_until = case when j.granted then j.now + $4 when j.answer = 'restored' then j.now else e.lease_until end,
        retry_at = null,
        -- A CLEAR effect's job is proven dead: asked for, it would pass for the next attempt's absence.
        job_id = case when j.answer in ('claim', 'restored') then null else e.job_id end,
        error_class = case
            when j.answer = 'fence' and j.lease_owner = 'restored' then j.lease_owner
            when j.answer = 'fence' then 'fenced'
            when j.answer = 'quarantine' then 'budget'
        end,
        -- What was begun by no worker was left by none: why it began in doubt still stands.
        evidence = case
            when j.answer = 'fence' and j.lease_owner = 'restored' then e.evidence
            when j.answer = 'claim' and j.evidence ->> 'rule' = 'absent_keyed' then $10 -> 'absent_keyed'
            else $10 -> j.answer
        end,
        evidence_version = e.version + 1,
        trace_id = case when j.granted then coalesce($17, e.trace_id) else e.trace_id end
    from judged as j
    where e.effect_id = j.effect_id and j.answer in ('claim', 'resend', 'fence', 'quarantine', 'restored')
    returning e.*
),
trail as (
    insert into ascertain.audit_events (
        effect_id, move, actor, from_state, to_state, version, lease_version, attempt, evidence, at)
    select
        r.effect_id, case j.answer when 'restored' then 'claim' else j.answer end, $3, j.state, r.state, r.version,
        r.lease_version, r.attempt, r.evidence, j.now
    from (select * from first union all select * from moved) as r
    cross join judged as j
)
select
    j.answer, j.now, case when (j.gate).partition is not null then to_jsonb(j.gate) end as gate, r.*
from judged as j
left join (
    select * from first
    union all select * from moved
    union all select * from standing where not exists (select from moved)
) as r on true
