-- Whether an owner has recorded exactly this already: its answer was lost, and it asks again. A function,
-- for the reason that ascertain.has_late_receipt is one.
create function ascertain.was_recorded(
    which text, held integer, who text, what text, told jsonb, proof jsonb
) returns boolean
language plpgsql volatile as $$
begin
    return exists (
        select from ascertain.audit_events
        where effect_id = which and lease_version = held and actor = who and move = what
            and evidence::text = told::text and receipt::text is not distinct from proof::text);
end
$$;
