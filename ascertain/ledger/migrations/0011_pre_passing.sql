-- A replay that was ended in the middle of a batch leaves it begun for ever. What it had begun passes the gate that
-- was closed then; a pause that comes later is a pause for it too.
create or replace function ascertain.closed_gate_of(which text, effect text) returns ascertain.gates
language plpgsql volatile as $$
declare
    closed ascertain.gates;
begin
    closed := ascertain.gate_before(which, effect);
    if closed.partition = which and exists (
        select from ascertain.replay_items
        where effect_id = effect and passes and result = 'STARTED' and changed_at >= closed.closed_at)
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
