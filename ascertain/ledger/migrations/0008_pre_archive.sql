-- Settled effects in few bytes: what keeps protecting, for ever.

create table ascertain.archived_effects (
    effect_id text not null,
    task_id text not null,
    message_id text,
    step text not null,
    revision integer not null,
    kind text not null,
    partition text not null,
    settled_at timestamptz not null,
    version integer not null,
    attempt integer not null,
    lease_version integer not null,
    first_sent_at timestamptz not null,
    fingerprint text not null,
    task_fingerprint text,
    receipt jsonb not null,
    external_id text not null,
    happened_at timestamptz,
    trace_id text,
    created_at timestamptz not null,
    archived_at timestamptz not null,
    constraint archived_effects_pkey primary key (effect_id)
);

create unique index archived_effects_one_live_per_step on ascertain.archived_effects (task_id, step);

create unique index archived_effects_one_effect_per_fact on ascertain.archived_effects (kind, external_id);

-- An archived effect as a row like any other; the bytes that were sent and the evidence stand nowhere but, in
-- short, on its trail.
create view ascertain.archived_rows as
select
    a.effect_id, a.task_id, a.message_id, a.step, a.revision, a.kind, a.partition, 'SETTLED' as state,
    a.settled_at as state_since, a.version, a.attempt, 0 as budget_from, 'archived' as lease_owner, a.lease_version,
    a.settled_at as lease_until, null::timestamptz as last_heartbeat_at, a.first_sent_at,
    null::timestamptz as resend_until, null::timestamptz as retry_at, a.fingerprint, ''::bytea as frozen,
    null as job_id, a.receipt, a.external_id, a.happened_at, null as error_class,
    '{"source": "rule", "rule": "archived", "detail": "it is archived: its receipt stands, what was sent does not"}'::jsonb
        as evidence,
    a.version as evidence_version, a.trace_id, null as taken_by, null as superseded_by, a.created_at,
    a.task_fingerprint
from ascertain.archived_effects as a;

-- Every effect that was ever claimed.
create view ascertain.known_effects as
select * from ascertain.effects
union all
select * from ascertain.archived_rows;

-- Some archived effects as rows of the table itself, whatever columns a later release adds to it.
create function ascertain.archived(which text[]) returns setof ascertain.effects
language plpgsql stable rows 1 as $$
declare
    one record;
begin
    for one in select * from ascertain.archived_rows where effect_id = any (which) loop
        return next jsonb_populate_record(null::ascertain.effects, to_jsonb(one));
    end loop;
end
$$;

-- Nothing is archived but a settled effect, exactly as it stands; and what is archived stays.
create function ascertain.archived_effects_fit() returns trigger
language plpgsql as $$
begin
    perform from ascertain.effects as e
    where (e.effect_id, e.state, e.task_id, e.step, e.kind, e.version, e.fingerprint, e.external_id, e.receipt)
        = (new.effect_id, 'SETTLED', new.task_id, new.step, new.kind, new.version, new.fingerprint, new.external_id,
           new.receipt)
        and e.task_fingerprint is not distinct from new.task_fingerprint;
    if not found then
        raise exception 'effect %: only what is settled is archived, as it stands', new.effect_id
            using errcode = 'integrity_constraint_violation', constraint = 'archived_effects_fit';
    end if;
    return new;
end
$$;

create trigger archived_effects_fit before insert on ascertain.archived_effects
for each row execute function ascertain.archived_effects_fit();

create trigger archived_effects_keep before update or delete on ascertain.archived_effects
for each row execute function ascertain.refuse('an archived effect is remembered for ever');

create trigger archived_effects_keep_all before truncate on ascertain.archived_effects
for each statement execute function ascertain.refuse('an archived effect is remembered for ever');

create function ascertain.effects_leave() returns trigger
language plpgsql as $$
begin
    perform from ascertain.archived_effects as a
    where (a.effect_id, a.version, a.external_id) = (old.effect_id, old.version, old.external_id);
    if not found then
        raise exception 'DELETE on ascertain.effects is refused: an effect is remembered for ever'
            using errcode = 'integrity_constraint_violation';
    end if;
    return old;
end
$$;

drop trigger effects_keep on ascertain.effects;
create trigger effects_keep before delete on ascertain.effects
for each row execute function ascertain.effects_leave();

-- What is archived protects as what stands does. One look into an index for each first claim and each proof, and
-- that after the row is written: a write that waited for an archive sees what it moved only then.
create function ascertain.effects_not_archived() returns trigger
language plpgsql as $$
declare
    other ascertain.archived_effects;
begin
    select * into other from ascertain.archived_effects
    where task_id = new.task_id
        and (effect_id = new.effect_id or step = new.step or task_fingerprint <> new.task_fingerprint)
    order by effect_id <> new.effect_id, step <> new.step
    limit 1;
    if not found then
        return new;
    end if;
    raise exception 'effect %: % is archived', new.effect_id, other.effect_id
        using errcode = 'unique_violation', detail = coalesce(other.task_fingerprint, ''), constraint = case
            when other.effect_id = new.effect_id then 'effects_not_archived'
            when other.task_fingerprint <> new.task_fingerprint then 'effects_one_content_per_task'
            else 'effects_one_live_per_step' end;
end
$$;

create trigger effects_not_archived after insert on ascertain.effects
for each row execute function ascertain.effects_not_archived();

create function ascertain.effects_fact_not_archived() returns trigger
language plpgsql as $$
begin
    perform from ascertain.archived_effects where kind = new.kind and external_id = new.external_id;
    if found then
        raise exception 'fact %: it proves an archived effect', new.external_id
            using errcode = 'unique_violation', constraint = 'effects_one_effect_per_fact';
    end if;
    return new;
end
$$;

create trigger effects_fact_not_archived after update on ascertain.effects
for each row when (new.state = 'SETTLED') execute function ascertain.effects_fact_not_archived();

-- Move what has been settled for long from one page of effects, by effect_id. Whoever may call this deletes
-- nothing else: it acts with its owner's rights, and the triggers above hold for the owner too. What somebody
-- holds right now, and what a half-open gate waits for, is left for a later run.
create function ascertain.archive_page(
    after text, older_than interval, most integer, moves boolean,
    out seen integer, out archived integer, out last text
)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    page text[];
    due text[];
begin
    select coalesce(array_agg(p.effect_id), '{}'), max(p.effect_id) into page, last
    from (
        select e.effect_id from ascertain.effects as e where e.effect_id > after order by e.effect_id limit most
    ) as p;
    seen := cardinality(page);
    select coalesce(array_agg(d.effect_id), '{}') into due
    from (
        select e.effect_id
        from ascertain.effects as e
        where e.effect_id = any (page) and e.state = 'SETTLED' and e.state_since <= ascertain.clock() - older_than
            and not exists (select from ascertain.gates as g where e.effect_id = any (g.probing))
        for update of e skip locked
    ) as d;
    archived := cardinality(due);
    if not moves then
        return;
    end if;
    insert into ascertain.archived_effects (
        effect_id, task_id, message_id, step, revision, kind, partition, settled_at, version, attempt, lease_version,
        first_sent_at, fingerprint, task_fingerprint, receipt, external_id, happened_at, trace_id, created_at,
        archived_at)
    select
        e.effect_id, e.task_id, e.message_id, e.step, e.revision, e.kind, e.partition, e.state_since, e.version,
        e.attempt, e.lease_version, e.first_sent_at, e.fingerprint, e.task_fingerprint, e.receipt, e.external_id,
        e.happened_at, e.trace_id, e.created_at, ascertain.clock()
    from ascertain.effects as e
    where e.effect_id = any (due);
    delete from ascertain.effects where effect_id = any (due);
end
$$;

revoke execute on function ascertain.archive_page(text, interval, integer, boolean) from public;
