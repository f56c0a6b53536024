-- Gates that a rule closes and that probing claims open again, and outsides that cannot be asked.

-- rule: which one closed it; null while it is open, and where a person closed it. probing: the effects whose
-- claims were let through since probe_from.
alter table ascertain.gates add column rule text;
alter table ascertain.gates add column probes integer not null default 0;
alter table ascertain.gates add column probe_after interval;
alter table ascertain.gates add column probe_from timestamptz;
alter table ascertain.gates add column probing text[] not null default '{}';
alter table ascertain.gates add constraint gates_rule_is_probed check (
    rule is null or (probes > 0 and probe_after is not null and probe_from is not null));

-- The closed gate that keeps one effect from dispatching, or null. An approved incident's replay takes its
-- batch through the gate that the incident closed, and a gate that a rule closed lets a few claims through when
-- its time to probe has come; neither passes a gate of every partition. The update waits for the other claims
-- that are let through, so there are never more.
create or replace function ascertain.closed_gate_of(which text, effect text) returns ascertain.gates
language plpgsql volatile as $$
declare
    closed ascertain.gates;
begin
    closed := ascertain.closed_gate(which);
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

-- The same for a claim that was let through and is renewed right before its send.
create function ascertain.renewal_gate_of(which text, effect text) returns ascertain.gates
language plpgsql volatile as $$
declare
    closed ascertain.gates;
begin
    closed := ascertain.closed_gate(which);
    if closed.partition = which and effect = any (closed.probing) then
        return null;
    end if;
    return ascertain.closed_gate_of(which, effect);
end
$$;

-- What the claims that were let through came to: one that got no answer closes the gate again, and as many as
-- may probe that did open it. The gate, if that changed it. One that never came to a claim, or was stopped by
-- its budget, was no probe.
create function ascertain.judge_probes(which text, who text) returns setof ascertain.gates
language plpgsql volatile as $$
declare
    gate ascertain.gates;
    failed record;
    tried text[];
    answered integer;
begin
    perform from ascertain.gates where partition = which and paused and rule is not null and probing <> '{}';
    if not found then
        return;
    end if;
    perform ascertain.lock_gate(which);
    select * into gate from ascertain.gates
    where partition = which and paused and rule is not null and probing <> '{}';
    if not found then
        return;
    end if;
    select e.effect_id, e.state into failed
    from ascertain.effects as e
    where e.effect_id = any (gate.probing) and e.state in ('UNKNOWN', 'CLEAR', 'QUARANTINED', 'TAKEN_OVER')
        and (e.state <> 'QUARANTINED' or e.error_class is distinct from 'budget')
    order by e.effect_id collate "C"
    limit 1;
    if found then
        update ascertain.gates set
            probing = '{}',
            probe_from = ascertain.clock() + probe_after,
            reason = split_part(reason, '; probe ', 1)
                || format('; probe %s came to %s', failed.effect_id, failed.state)
        where partition = which returning * into gate;
    else
        select
            coalesce(array_agg(p.effect_id order by p.place), '{}'),
            count(*) filter (where e.state <> 'IN_FLIGHT')
        into tried, answered
        from unnest(gate.probing) with ordinality as p (effect_id, place)
        join ascertain.effects as e using (effect_id)
        where e.state <> 'QUARANTINED';
        if answered >= gate.probes then
            update ascertain.gates set
                paused = false,
                since = ascertain.clock(),
                by = who,
                reason = format('its probes were answered: %s of %s', answered, probes),
                rule = null,
                probing = '{}'
            where partition = which returning * into gate;
        elsif tried = gate.probing then
            return;
        else
            update ascertain.gates set probing = tried where partition = which returning * into gate;
            return next gate;
            return;
        end if;
    end if;
    insert into ascertain.gate_requests (request_id, partition, paused, by, reason, at)
    values ('breaker-' || gen_random_uuid(), which, gate.paused, who, gate.reason, ascertain.clock());
    return next gate;
end
$$;

-- Which outsides cannot be asked: one row for all effects of a kind in a partition.
create table ascertain.outages (
    partition text not null,
    kind text not null,
    since timestamptz not null,
    reason text not null,
    ended_at timestamptz,
    constraint outages_pkey primary key (partition, kind)
);
