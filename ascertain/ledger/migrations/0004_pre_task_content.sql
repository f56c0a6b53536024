-- What a task was started with outlives Temporal's memory of it, and so do repeats of the same request.

alter table ascertain.effects add column task_fingerprint text;

-- No two contents under one task_id, however their steps are named: the first claim of an effect is refused
-- if another effect of its task was claimed for other content. Costs one look into an index per effect.
create function ascertain.effects_one_content() returns trigger
language plpgsql as $$
declare
    stored text;
begin
    select task_fingerprint into stored from ascertain.effects
    where task_id = new.task_id and state <> 'SUPERSEDED' and task_fingerprint <> new.task_fingerprint
    limit 1;
    if found then
        raise exception 'task %: was begun with other content', new.task_id
            using errcode = 'unique_violation', constraint = 'effects_one_content_per_task', detail = stored;
    end if;
    return new;
end
$$;

create trigger effects_one_content before insert on ascertain.effects
for each row when (new.task_fingerprint is not null) execute function ascertain.effects_one_content();

create function ascertain.effects_keep_task() returns trigger
language plpgsql as $$
begin
    raise exception 'effect %: what was claimed never changes', old.effect_id
        using errcode = 'integrity_constraint_violation', constraint = 'effects_keep_task';
end
$$;

create trigger effects_keep_task before update on ascertain.effects
for each row when (new.task_fingerprint is distinct from old.task_fingerprint)
execute function ascertain.effects_keep_task();

-- Deliveries of a request after the one that started its task. The first stands in Temporal's history and,
-- with its message_id, on every effect; a repeat costs one statement here, and a smooth start none.
create table ascertain.deliveries (
    task_id text not null,
    message_id text not null,
    fate text not null,
    fingerprint text not null,
    count bigint not null,
    first_at timestamptz not null,
    last_at timestamptz not null,
    constraint deliveries_pkey primary key (task_id, message_id, fate, fingerprint),
    constraint deliveries_fate_known check (fate in ('duplicate', 'restarted', 'conflict')),
    constraint deliveries_count_from_one check (count >= 1)
);

create function ascertain.deliveries_count() returns trigger
language plpgsql as $$
begin
    if new.count <> old.count + 1 or new.last_at < old.last_at
        or (new.task_id, new.message_id, new.fate, new.fingerprint, new.first_at)
            <> (old.task_id, old.message_id, old.fate, old.fingerprint, old.first_at)
    then
        raise exception 'delivery of task %: is only counted', old.task_id
            using errcode = 'integrity_constraint_violation', constraint = 'deliveries_count';
    end if;
    return new;
end
$$;

create trigger deliveries_count before update on ascertain.deliveries
for each row execute function ascertain.deliveries_count();

create trigger deliveries_keep before delete on ascertain.deliveries
for each row execute function ascertain.refuse('a delivery is remembered for ever');

create trigger deliveries_keep_all before truncate on ascertain.deliveries
for each statement execute function ascertain.refuse('a delivery is remembered for ever');
