-- What a service keeps beside its own tables: tasks that its commits ask for, messages that it has acted on.

create table ascertain.outbox_entries (
    entry_id bigint generated always as identity,
    task_id text not null,
    -- json and not jsonb: what was put is what is started, to the last digit of a number.
    content json not null,
    traceparent text,
    put_at timestamptz not null default clock_timestamp(),
    takes integer not null default 0,
    taken_until timestamptz not null default '-infinity',
    started_at timestamptz,
    run_id text,
    set_aside_at timestamptz,
    reason text,
    constraint outbox_entries_pkey primary key (entry_id),
    constraint outbox_entries_ends_once check (started_at is null or set_aside_at is null),
    constraint outbox_entries_set_aside_has_reason check (set_aside_at is null or reason is not null)
);

-- Nobody follows the ids: a row is found by what it is, however late its transaction commits.
create index outbox_entries_waiting on ascertain.outbox_entries (entry_id)
where started_at is null and set_aside_at is null;

create index outbox_entries_set_aside on ascertain.outbox_entries (entry_id)
where set_aside_at is not null;

create index outbox_entries_started on ascertain.outbox_entries (started_at)
where started_at is not null;

create function ascertain.outbox_entries_tell() returns trigger
language plpgsql as $$
begin
    perform pg_notify('ascertain_outbox', '');
    return null;
end
$$;

create trigger outbox_entries_tell after insert on ascertain.outbox_entries
for each statement execute function ascertain.outbox_entries_tell();

create table ascertain.inbox_messages (
    consumer text not null,
    message_id text not null,
    fingerprint text,
    received_at timestamptz not null default clock_timestamp(),
    constraint inbox_messages_pkey primary key (consumer, message_id)
);

create index inbox_messages_received on ascertain.inbox_messages (received_at);
