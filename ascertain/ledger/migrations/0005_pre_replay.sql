-- Replays: which effects belong to one, and what became of each.

create table ascertain.replay_items (
    replay_id text not null,
    effect_id text not null,
    task_id text not null,
    kind text not null,
    partition text not null,
    state text not null,
    version integer not null,
    attempt integer not null,
    outlook text,
    batch integer,
    result text not null,
    detail text not null,
    passes boolean not null,
    changed_at timestamptz not null,
    constraint replay_items_pkey primary key (replay_id, effect_id),
    constraint replay_items_state_selectable check (state in ('QUARANTINED', 'UNKNOWN')),
    constraint replay_items_outlook_known check (outlook in (
        'THERE', 'ABSENT', 'KEY_ALIVE', 'KEY_EXPIRED', 'UNKNOWN', 'MOVED')),
    constraint replay_items_result_known check (result in (
        'WAITING', 'STARTED', 'FOUND', 'DONE', 'REFUSED', 'QUARANTINED', 'OPEN', 'MOVED', 'LEFT')),
    -- Nothing is told to go on before the dry run has asked for it.
    constraint replay_items_asked_first check (result = 'WAITING' or outlook is not null),
    constraint replay_items_told_in_a_batch check (result <> 'STARTED' or batch is not null)
);

create index replay_items_passing on ascertain.replay_items (effect_id)
where passes and result = 'STARTED';

-- The closed gate that keeps one effect from dispatching, or null. An approved incident's replay takes its
-- batch through the gate that the incident closed, and through no gate of every partition.
create function ascertain.closed_gate_of(which text, effect text) returns ascertain.gates
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
    return closed;
end
$$;
