-- Restores: from when on the ledger may have forgotten what was done.

-- since: what the backup still knows. raised_at: nothing that was sent unknown to the ledger was sent later.
-- until: tasks that were begun before it may have been at work in between.
create table ascertain.epochs (
    request_id text not null,
    since timestamptz not null,
    raised_at timestamptz not null,
    until timestamptz not null,
    by text not null,
    reason text not null,
    constraint epochs_pkey primary key (request_id),
    constraint epochs_in_order check (since <= raised_at and raised_at <= until)
);

create trigger epochs_keep before update or delete on ascertain.epochs
for each row execute function ascertain.refuse('an epoch is remembered for ever');

create trigger epochs_keep_all before truncate on ascertain.epochs
for each statement execute function ascertain.refuse('an epoch is remembered for ever');
