-- The ledger: effects, their audit trail, and the gates of partitions.

-- All lease arithmetic reads this one clock. clock_timestamp() and not now(): a statement that waited
-- for a row's lock then judges and stamps with the time at which it got it, so the times of one
-- effect's trail never run backwards. Tests replace it, so that no test has to sleep.
create function ascertain.clock() returns timestamptz
language sql volatile parallel safe
return clock_timestamp();

create table ascertain.effects (
    effect_id text not null,
    task_id text not null,
    message_id text,
    step text not null,
    revision integer not null,
    kind text not null,
    partition text not null,
    state text not null,
    state_since timestamptz not null,
    version integer not null,
    attempt integer not null,
    budget_from integer not null default 0,
    lease_owner text not null,
    lease_version integer not null,
    lease_until timestamptz not null,
    last_heartbeat_at timestamptz,
    first_sent_at timestamptz not null,
    -- 'infinity': a duplicate is harmless, so the same bytes may be sent again for ever.
    resend_until timestamptz,
    retry_at timestamptz,
    fingerprint text not null,
    frozen bytea not null,
    job_id text,
    receipt jsonb,
    external_id text,
    happened_at timestamptz,
    error_class text,
    evidence jsonb not null,
    -- The version whose move the evidence explains; ties SETTLED and CLEAR to evidence of their own.
    evidence_version integer not null,
    trace_id text,
    taken_by text,
    superseded_by text,
    created_at timestamptz not null,
    constraint effects_pkey primary key (effect_id),
    constraint effects_effect_id_shape check (effect_id ~ '^[A-Za-z0-9._-]{1,64}$'),
    constraint effects_task_id_shape check (task_id ~ '^[A-Za-z0-9][A-Za-z0-9._:@/-]{0,127}$'),
    constraint effects_state_known check (state in (
        'IN_FLIGHT', 'ACCEPTED', 'UNKNOWN', 'CLEAR', 'SETTLED', 'REFUSED', 'QUARANTINED', 'TAKEN_OVER',
        'ABANDONED', 'SUPERSEDED')),
    constraint effects_revision_from_zero check (revision >= 0),
    constraint effects_version_from_one check (version >= 1),
    constraint effects_attempt_from_one check (attempt >= 1),
    constraint effects_lease_version_from_one check (lease_version >= 1),
    constraint effects_budget_from_within_attempts check (budget_from between 0 and attempt),
    constraint effects_frozen_bounded check (octet_length(frozen) <= 262144),
    constraint effects_evidence_names_rule check (evidence ?& array['source', 'rule']),
    constraint effects_evidence_of_a_version check (evidence_version between 1 and version),
    constraint effects_settled_has_receipt check (
        state <> 'SETTLED'
        or (external_id is not null and coalesce(receipt ->> 'external_id' = external_id, false))),
    constraint effects_proof_has_own_evidence check (
        state not in ('SETTLED', 'CLEAR') or evidence_version = version),
    constraint effects_taken_over_has_taker check (state <> 'TAKEN_OVER' or taken_by is not null),
    constraint effects_accepted_has_job check (state <> 'ACCEPTED' or job_id is not null)
);

-- At most one live effect per step of a task; also finds the effects of a task.
create unique index effects_one_live_per_step on ascertain.effects (task_id, step)
where state <> 'SUPERSEDED';

create index effects_superseded on ascertain.effects (task_id)
where state = 'SUPERSEDED';

-- A fact outside proves at most one effect.
create unique index effects_one_effect_per_fact on ascertain.effects (kind, external_id)
where state = 'SETTLED' and external_id is not null;

-- Sweep, metrics and lists cost what is open, not what was ever stored.
create index effects_open on ascertain.effects (state, state_since)
where state not in ('SETTLED', 'REFUSED', 'ABANDONED', 'SUPERSEDED');

create table ascertain.audit_events (
    effect_id text not null,
    seq integer not null,
    move text not null,
    actor text not null,
    from_state text,
    to_state text,
    version integer not null,
    lease_version integer not null,
    attempt integer not null,
    evidence jsonb not null,
    receipt jsonb,
    at timestamptz not null,
    hash bytea not null,
    constraint audit_events_pkey primary key (effect_id, seq),
    constraint audit_events_seq_from_one check (seq >= 1),
    constraint audit_events_hash_is_sha256 check (octet_length(hash) = 32)
);

create table ascertain.gates (
    partition text not null,
    paused boolean not null,
    since timestamptz not null,
    by text not null,
    reason text not null,
    closed_at timestamptz,
    constraint gates_pkey primary key (partition),
    constraint gates_paused_was_closed check (not paused or closed_at is not null)
);

-- Every request, for ever: however late a repeat comes, it is known.
create table ascertain.gate_requests (
    request_id text not null,
    partition text not null,
    paused boolean not null,
    by text not null,
    reason text not null,
    at timestamptz not null,
    constraint gate_requests_pkey primary key (request_id)
);

create function ascertain.refuse() returns trigger
language plpgsql as $$
begin
    raise exception '% on ascertain.% is refused: %', tg_op, tg_table_name, tg_argv[0]
        using errcode = 'integrity_constraint_violation';
end
$$;

create function ascertain.effects_begin() returns trigger
language plpgsql as $$
begin
    if new.state <> 'IN_FLIGHT' or new.version <> 1 or new.attempt <> 1 then
        raise exception 'effect %: begins IN_FLIGHT at version 1, attempt 1', new.effect_id
            using errcode = 'integrity_constraint_violation', constraint = 'effects_begin';
    end if;
    return new;
end
$$;

-- The same pairs as ascertain.machine.TABLE; a test tries all of them here and compares.
create function ascertain.effects_move() returns trigger
language plpgsql as $$
declare
    wrong text;
begin
    if old.state in ('SETTLED', 'REFUSED', 'ABANDONED', 'SUPERSEDED') then
        wrong := format('%s is final', old.state);
    elsif not new.state = any (case old.state
        when 'IN_FLIGHT' then array['IN_FLIGHT', 'SETTLED', 'REFUSED', 'ACCEPTED', 'CLEAR', 'UNKNOWN']
        when 'ACCEPTED' then array['SETTLED', 'REFUSED', 'QUARANTINED', 'TAKEN_OVER']
        when 'UNKNOWN' then
            array['IN_FLIGHT', 'SETTLED', 'REFUSED', 'ACCEPTED', 'CLEAR', 'QUARANTINED', 'TAKEN_OVER']
        when 'CLEAR' then
            array['IN_FLIGHT', 'SETTLED', 'QUARANTINED', 'TAKEN_OVER', 'ABANDONED', 'SUPERSEDED']
        when 'QUARANTINED' then array['SETTLED', 'TAKEN_OVER', 'CLEAR', 'UNKNOWN', 'ABANDONED']
        when 'TAKEN_OVER' then array['SETTLED', 'CLEAR', 'UNKNOWN', 'ABANDONED']
        else '{}'::text[] end)
    then
        wrong := format('no move leads from %s to %s', old.state, new.state);
    elsif new.version <> old.version + 1 then
        wrong := format('version goes from %s to %s, not to %s', old.version, old.version + 1, new.version);
    elsif new.lease_version < old.lease_version or new.attempt < old.attempt then
        wrong := 'lease_version and attempt never go down';
    elsif (new.effect_id, new.task_id, new.step, new.revision, new.kind, new.partition, new.fingerprint,
           new.frozen, new.first_sent_at, new.created_at)
        is distinct from
          (old.effect_id, old.task_id, old.step, old.revision, old.kind, old.partition, old.fingerprint,
           old.frozen, old.first_sent_at, old.created_at)
        or new.resend_until is distinct from old.resend_until
        or new.message_id is distinct from old.message_id
    then
        wrong := 'what was claimed never changes';
    elsif new.state = 'IN_FLIGHT' and old.state = 'IN_FLIGHT' then
        wrong := case
            when new.lease_version <> old.lease_version or new.attempt <> old.attempt
                then 'a renewal is not a claim'
            when new.lease_until < old.lease_until then 'a renewal never shortens the lease'
            when old.evidence ->> 'rule' = 'resend' and new.lease_until > old.resend_until
                then 'the key does not protect a re-send for the whole lease' end;
    elsif new.state = 'IN_FLIGHT' then
        wrong := case
            when new.lease_version <> old.lease_version + 1 or new.attempt <> old.attempt + 1
                then 'IN_FLIGHT is entered only with a new lease_version and a new attempt'
            when old.state = 'UNKNOWN' and not coalesce(new.lease_until <= old.resend_until, false)
                then 'the key does not protect a re-send for the whole lease' end;
    elsif new.attempt <> old.attempt then
        wrong := 'only a claim counts an attempt';
    elsif old.state = 'IN_FLIGHT' and new.state = 'UNKNOWN' and new.lease_until > ascertain.clock() then
        wrong := 'its lease is still open';
    elsif old.state = 'IN_FLIGHT' and new.state = 'UNKNOWN'
        and new.lease_version not in (old.lease_version, old.lease_version + 1)
        or not (old.state = 'IN_FLIGHT' and new.state = 'UNKNOWN')
        and new.lease_version <> old.lease_version
    then
        wrong := 'only a claim and a fence raise lease_version, by one';
    elsif new.evidence_version <> new.version then
        wrong := format('%s needs stored evidence (evidence, and evidence_version = version)', new.state);
    end if;
    if wrong is not null then
        raise exception 'effect %: %', old.effect_id, wrong
            using errcode = 'integrity_constraint_violation', constraint = 'effects_move';
    end if;
    return new;
end
$$;

create trigger effects_begin before insert on ascertain.effects
for each row execute function ascertain.effects_begin();

create trigger effects_move before update on ascertain.effects
for each row execute function ascertain.effects_move();

create trigger effects_keep before delete on ascertain.effects
for each row execute function ascertain.refuse('an effect is remembered for ever');

create trigger effects_keep_all before truncate on ascertain.effects
for each statement execute function ascertain.refuse('an effect is remembered for ever');

-- Number the event and chain it to the one before. The caller holds the lock on the effect's row, and
-- a statement inside a function sees what was committed up to now, so a chain never forks.
-- The text that is hashed is what ascertain.ledger.audit.event_text builds.
create function ascertain.audit_events_chain() returns trigger
language plpgsql as $$
declare
    last record;
begin
    select seq, hash into last from ascertain.audit_events
    where effect_id = new.effect_id order by seq desc limit 1;
    new.seq := coalesce(last.seq, 0) + 1;
    new.hash := sha256(coalesce(last.hash, '') || convert_to(jsonb_build_array(
        new.effect_id, new.seq, new.move, new.actor, new.from_state, new.to_state, new.version,
        new.lease_version, new.attempt, new.evidence, new.receipt,
        to_char(new.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text, 'UTF8'));
    return new;
end
$$;

create trigger audit_events_chain before insert on ascertain.audit_events
for each row execute function ascertain.audit_events_chain();

create trigger audit_events_keep before update or delete on ascertain.audit_events
for each row execute function ascertain.refuse('the audit trail is append-only');

create trigger audit_events_keep_all before truncate on ascertain.audit_events
for each statement execute function ascertain.refuse('the audit trail is append-only');

-- Functions and not sub-selects: inside a function a query sees what was committed while the calling
-- statement waited for its row's lock; the statement's own snapshot is older than that.

create function ascertain.has_late_receipt(which text) returns boolean
language plpgsql volatile as $$
begin
    return exists (
        select from ascertain.audit_events
        where effect_id = which and move = 'refused_write' and receipt is not null);
end
$$;

-- The gate that keeps the partition from dispatching, or null. A claim holds the gate's lock shared
-- until it has committed and a change holds it alone, so once a pause is committed no claim that
-- missed it can still appear.
create function ascertain.closed_gate(which text) returns ascertain.gates
language plpgsql volatile as $$
declare
    closed ascertain.gates;
begin
    perform pg_advisory_xact_lock_shared(hashtextextended('ascertain.gate:*', 0)),
            pg_advisory_xact_lock_shared(hashtextextended('ascertain.gate:' || which, 0));
    select * into closed from ascertain.gates
    where partition in ('*', which) and paused
    order by partition <> '*' limit 1;
    return closed;
end
$$;

create function ascertain.lock_gate(which text) returns void
language sql volatile
begin atomic
    select pg_advisory_xact_lock(hashtextextended('ascertain.gate:' || which, 0));
end;
