-- Almost no first claim has anything to do with what is archived, and that is found out before a trigger is queued
-- for it. Still after the row is written, and from inside a function that sees what was committed meanwhile: a
-- claim that waited for an archive sees what it moved only then.

create function ascertain.task_is_archived(which text) returns boolean
language plpgsql volatile as $$
begin
    return exists (select from ascertain.archived_effects where task_id = which);
end
$$;

drop trigger effects_not_archived on ascertain.effects;
create trigger effects_not_archived after insert on ascertain.effects
for each row when (ascertain.task_is_archived(new.task_id)) execute function ascertain.effects_not_archived();
