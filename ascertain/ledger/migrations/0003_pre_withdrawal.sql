-- A task that is cancelled before its effect was claimed leaves a row that refuses every later claim: a
-- worker that was frozen before its claim would be granted it otherwise.

alter table ascertain.effects drop constraint effects_attempt_from_one;
alter table ascertain.effects add constraint effects_attempt_from_one check (
    attempt >= 1 or (state = 'ABANDONED' and attempt = 0));
alter table ascertain.effects drop constraint effects_lease_version_from_one;
alter table ascertain.effects add constraint effects_lease_version_from_one check (
    lease_version >= 1 or (state = 'ABANDONED' and lease_version = 0));

create or replace function ascertain.effects_begin() returns trigger
language plpgsql as $$
begin
    if (new.state, new.version, new.attempt, new.lease_version)
        not in (('IN_FLIGHT', 1, 1, 1), ('ABANDONED', 1, 0, 0))
    then
        raise exception 'effect %: begins IN_FLIGHT at version 1, attempt 1, or withdrawn', new.effect_id
            using errcode = 'integrity_constraint_violation', constraint = 'effects_begin';
    end if;
    return new;
end
$$;
