-- The database that rows are synchronised to: the table of its own, and the table of records.
create table customers (id text primary key, name text not null);

create table ascertain_effects (
    effect_id text primary key,
    request_sha256 text not null,
    result jsonb,
    applied_at timestamptz not null default clock_timestamp()
);
