-- name: lock_migrations
-- One migrator at a time; held until the connection ends.
select pg_advisory_lock(hashtextextended('ascertain.migrations', 0))

-- name: create_migrations
-- What the migrations themselves are recorded in.
create schema if not exists ascertain;
create table if not exists ascertain.migrations (
    name text not null,
    sha256 text not null,
    applied_at timestamptz not null default now(),
    constraint migrations_pkey primary key (name)
)

-- name: applied_migrations
-- What was applied, and the digest of the file as it was then.
select name, sha256 from ascertain.migrations order by name

-- name: record_migration
-- Remember an applied file.
insert into ascertain.migrations (name, sha256) values ($1, $2)
