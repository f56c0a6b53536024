-- The same shapes of ids, told without counted repetition: PostgreSQL runs {1,64} and {0,127} twenty times as slowly,
-- at every write of a row. Not validated: what stands was let in by the same rule, and a scan would hold the table.
alter table ascertain.effects
    drop constraint effects_effect_id_shape,
    add constraint effects_effect_id_shape check (
        effect_id ~ '^[A-Za-z0-9._-]+$' and octet_length(effect_id) <= 64) not valid,
    drop constraint effects_task_id_shape,
    add constraint effects_task_id_shape check (
        task_id ~ '^[A-Za-z0-9][A-Za-z0-9._:@/-]*$' and octet_length(task_id) <= 128) not valid;
