-- The last census of each kind, without its list of discrepancies: a rate that only those saw who asked for it
-- warns nobody.

create table ascertain.censuses (
    kind text not null,
    taken_at timestamptz not null,
    report jsonb not null,
    constraint censuses_pkey primary key (kind)
);
