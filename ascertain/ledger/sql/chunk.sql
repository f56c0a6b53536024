-- name: claim_many
-- First claims of many effects in one commit; what stands already is told and left as it is. An effect
-- that is neither told nor granted lost a race (a first try of the same asker may be under way yet), its step
-- has another live effect, or its task was begun with other content.
with asked as materialized (
    select * from unnest(
        $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bytea[],
        $9::interval[], $10::interval[], $11::boolean[], $12::integer[],
        $16::text[], $18::timestamptz[]
    ) as a (
        effect_id, task_id, message_id, step, kind, partition, fingerprint, frozen, lease, resend_for, forever,
        revision, task_fingerprint, begun_at)
),
gated as materialized (
    select p.partition, ascertain.closed_gate(p.partition) as gate
    from (select distinct partition from asked order by partition) as p
),
timed as materialized (
    select ascertain.clock() as now from (select count(*) from gated) as after_the_gates
),
-- Of a gate that opens little by little, each effect asks for itself.
met as materialized (
    select a.*, case
        when (g.gate).paused is false then ascertain.gate_before(a.partition, a.effect_id)
        else g.gate
    end as gate
    from asked as a
    join gated as g using (partition)
),
first as (
    insert into ascertain.effects (
        effect_id, task_id, message_id, step, revision, kind, partition, state, state_since, version,
        attempt, budget_from, lease_owner, lease_version, lease_until, first_sent_at, resend_until, fingerprint,
        frozen, evidence, evidence_version, trace_id, created_at, task_fingerprint)
    select
        a.effect_id, a.task_id, a.message_id, a.step, a.revision, a.kind, a.partition, 'IN_FLIGHT', t.now, 1,
        1, (l.since is not null)::integer, case when l.since is null then $13::text else 'restored' end, 1,
        t.now + case when l.since is null then a.lease else interval '0' end, l.first_sent_at,
        case when a.forever then timestamptz 'infinity' else l.first_sent_at + a.resend_for end, a.fingerprint,
        a.frozen, case when l.since is null then $14::jsonb else $17::jsonb end, 1, $15::text, t.now, a.task_fingerprint
    -- In order, so that it is the first of them that a gate lets through to probe.
    from (select * from met order by effect_id offset 0) as a
    cross join timed as t
    -- What a restored ledger may have forgotten begins in doubt, and is nobody's claim.
    cross join lateral (
        select
            min(p.since) as since,
            least(t.now, greatest(coalesce(min(p.since), t.now), a.begun_at)) as first_sent_at
        from ascertain.epochs as p
        where p.until > coalesce(a.begun_at, '-infinity')
    ) as l
    where case
        when exists (
            select from ascertain.effects as o
            where o.task_id = a.task_id and o.state <> 'SUPERSEDED' and o.task_fingerprint <> a.task_fingerprint)
        then false
        when exists (select from ascertain.archived_effects as o where o.task_id = a.task_id) then false
        when (a.gate).partition is null then true
        when (a.gate).rule is null then false
        -- What stands already takes none of the few places of a gate that is probed.
        when exists (
            select from ascertain.effects as o
            where o.effect_id = a.effect_id
                or (o.task_id = a.task_id and o.step = a.step and o.state <> 'SUPERSEDED'))
        then false
        -- Neither does what begins in doubt, of which nothing is sent.
        when l.since is not null then true
        else (ascertain.closed_gate_of(a.partition, a.effect_id)).partition is null
    end
    order by a.effect_id
    on conflict do nothing
    returning *
),
trail as (
    insert into ascertain.audit_events (
        effect_id, move, actor, from_state, to_state, version, lease_version, attempt, evidence, at)
    select
        effect_id, 'claim', $13, null, state, version, lease_version, attempt, evidence, created_at
    from first
)
select
    a.effect_id as asked, t.now,
    -- Also what was granted already, if the answer was lost: the owner's name is this asker's alone.
    r.state = 'IN_FLIGHT' and r.lease_owner = $13 and r.lease_until > t.now and r.fingerprint = a.fingerprint
        as granted,
    case when (a.gate).partition is not null then to_jsonb(a.gate) end as gate, r.*
from met as a
cross join timed as t
left join (
    select * from first
    union all select e.* from ascertain.effects as e join asked using (effect_id)
    union all select * from ascertain.archived((select array_agg(effect_id) from asked))
) as r on r.effect_id = a.effect_id

-- name: record_many
-- Settle or refuse many open claims in one commit, each if it is still its owner's. What is not told is
-- not written: it is recorded by itself then, which keeps what a fenced owner knew.
with told as materialized (
    select * from unnest(
        $1::text[], $2::integer[], $3::text[], $4::text[], $5::jsonb[], $6::jsonb[], $7::text[],
        $8::timestamptz[], $9::text[]
    ) as o (
        effect_id, lease_version, move, state, evidence, receipt, external_id, happened_at, error_class)
),
timed as materialized (
    select ascertain.clock() as now, set_config('synchronous_commit', 'off', true) as commits
),
moved as (
    update ascertain.effects as e set
        state = o.state,
        state_since = greatest(t.now, e.state_since),
        version = e.version + 1,
        retry_at = null,
        receipt = o.receipt,
        external_id = o.external_id,
        happened_at = o.happened_at,
        error_class = o.error_class,
        evidence = o.evidence,
        evidence_version = e.version + 1
    from told as o
    cross join timed as t
    where e.effect_id = o.effect_id and e.state = 'IN_FLIGHT' and e.lease_version = o.lease_version
    returning e.*, o.move
),
trail as (
    insert into ascertain.audit_events (
        effect_id, move, actor, from_state, to_state, version, lease_version, attempt, evidence, receipt, at)
    select
        effect_id, move, lease_owner, 'IN_FLIGHT', state, version, lease_version, attempt, evidence, receipt,
        state_since
    from moved
)
select effect_id from moved
