-- name: grant_roles
-- The roles in a service's database: the service puts and receives, the relay starts and lets go.
do $$
declare
    role text;
begin
    foreach role in array array['ascertain_service', 'ascertain_relay'] loop
        begin
            execute format('create role %I nologin', role);
        exception when duplicate_object or unique_violation then
            null; -- another service of this server has them already, or this is a repeat
        end;
        execute format('grant usage on schema ascertain to %I', role);
    end loop;
    revoke all on ascertain.outbox_entries, ascertain.inbox_messages from ascertain_service, ascertain_relay;
    grant insert (task_id, content, traceparent) on ascertain.outbox_entries to ascertain_service;
    grant select, insert on ascertain.inbox_messages to ascertain_service;
    grant select, update, delete on ascertain.outbox_entries to ascertain_relay;
end
$$
