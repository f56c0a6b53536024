-- name: grant_roles
-- The ledger's roles and what each may do; nobody may delete, truncate or change the schema. Run again after
-- a migration: it grants what the roles need of new tables too.
do $$
declare
    role text;
    relation record;
begin
    foreach role in array array['ascertain_worker', 'ascertain_operator', 'ascertain_reader'] loop
        begin
            execute format('create role %I nologin', role);
        exception when duplicate_object or unique_violation then
            null; -- another database of this server has the ledger of another deployment, or this is a repeat
        end;
        execute format('grant usage on schema ascertain to %I', role);
    end loop;
    for relation in
        select c.oid::regclass as name, c.relname from pg_class as c
        where c.relnamespace = 'ascertain'::regnamespace and c.relkind in ('r', 'p', 'v')
            and c.relname not in ('outbox_entries', 'inbox_messages')
    loop
        execute format('revoke all on %s from ascertain_worker, ascertain_operator, ascertain_reader', relation.name);
        execute format('grant select on %s to ascertain_worker, ascertain_operator, ascertain_reader', relation.name);
        if relation.relname = 'audit_events' then
            execute format('grant insert on %s to ascertain_worker', relation.name);
        elsif relation.relname not in ('migrations', 'archived_effects', 'archived_rows', 'known_effects') then
            execute format('grant insert, update on %s to ascertain_worker', relation.name);
        end if;
        if relation.relname in ('gates', 'gate_requests', 'deliveries', 'epochs') then
            execute format('grant insert, update on %s to ascertain_operator', relation.name);
        end if;
    end loop;
    grant execute on function ascertain.archive_page(text, interval, integer, boolean) to ascertain_operator;
end
$$

-- name: missing_grants
-- Which of these rights, each on the table beside it, this account lacks.
select wanted.relation, wanted.privilege, quote_ident(current_user) as account
from unnest($1::text [], $2::text []) as wanted (relation, privilege)
where not has_table_privilege('ascertain.' || wanted.relation, wanted.privilege)
