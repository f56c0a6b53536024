-- Gates that open little by little.

-- Until then a gate that was opened at "since" stops every effect whose turn has not come.
alter table ascertain.gates add column ramp_until timestamptz;
alter table ascertain.gate_requests add column ramp interval;

-- When an effect's turn comes: its id decides, so that it is the same for every claim of it, without a counter; as
-- ascertain.ledger.gate.turn_of. Counted in microseconds, for a day may have 23 hours somewhere.
create function ascertain.turn_of(effect text, since timestamptz, until timestamptz) returns timestamptz
language sql stable
begin atomic
    select since + interval '1 microsecond' * div(
        ('x' || encode(substring(sha256(convert_to(effect, 'UTF8')) for 4), 'hex'))::bit(32)::bigint
        * ((extract(epoch from until) - extract(epoch from since)) * 1000000),
        4294967296);
end;

-- Whether a person's request leaves a gate as it is: it is where it is wanted, by a person, for all alike.
create function ascertain.stays(gate ascertain.gates, wanted boolean, at timestamptz) returns boolean
language sql immutable
begin atomic
    select gate.paused = wanted and gate.rule is null and (wanted or (gate.ramp_until > at) is not true);
end;

-- The first gate that may stop effects of the partition: it is closed, or opens little by little.
create or replace function ascertain.closed_gate(which text) returns ascertain.gates
language plpgsql volatile as $$
declare
    closed ascertain.gates;
begin
    perform pg_advisory_xact_lock_shared(hashtextextended('ascertain.gate:*', 0)),
            pg_advisory_xact_lock_shared(hashtextextended('ascertain.gate:' || which, 0));
    select * into closed from ascertain.gates
    where partition in ('*', which) and (paused or ramp_until > ascertain.clock())
    order by partition <> '*' limit 1;
    return closed;
end
$$;

-- The first gate that stops this effect, or null: behind one that it passes there may be another.
create function ascertain.gate_before(which text, effect text) returns ascertain.gates
language plpgsql volatile as $$
declare
    closed ascertain.gates;
    now timestamptz;
begin
    closed := ascertain.closed_gate(which);
    if closed.paused is not false then
        return closed;
    end if;
    now := ascertain.clock();
    select * into closed from ascertain.gates
    where partition in ('*', which)
        and (paused or (ramp_until > now and ascertain.turn_of(effect, since, ramp_until) > now))
    order by partition <> '*' limit 1;
    return closed;
end
$$;

create or replace function ascertain.closed_gate_of(which text, effect text) returns ascertain.gates
language plpgsql volatile as $$
declare
    closed ascertain.gates;
begin
    closed := ascertain.gate_before(which, effect);
    if closed.partition = which and exists (
        select from ascertain.replay_items
        where effect_id = effect and passes and result = 'STARTED')
    then
        return null;
    end if;
    if closed.partition = which and closed.rule is not null then
        update ascertain.gates set probing = probing || effect
        where partition = which and paused and rule is not null and probe_from <= ascertain.clock()
            and cardinality(probing) < probes and effect <> all (probing);
        if found then
            return null;
        end if;
    end if;
    return closed;
end
$$;

create or replace function ascertain.renewal_gate_of(which text, effect text) returns ascertain.gates
language plpgsql volatile as $$
declare
    closed ascertain.gates;
begin
    closed := ascertain.gate_before(which, effect);
    if closed.partition = which and effect = any (closed.probing) then
        return null;
    end if;
    return ascertain.closed_gate_of(which, effect);
end
$$;
