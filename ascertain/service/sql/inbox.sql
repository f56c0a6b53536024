-- name: receive_message
-- Remember a message; a row comes back only the first time. Waits for another transaction that holds it.
insert into ascertain.inbox_messages (consumer, message_id, fingerprint)
values (cast($1 as text), cast($2 as text), cast($3 as text))
on conflict (consumer, message_id) do nothing
returning message_id

-- name: received_message
-- What was remembered of a message.
select fingerprint from ascertain.inbox_messages
where consumer = cast($1 as text) and message_id = cast($2 as text)

-- name: prune_messages
-- Let go of messages that are so old that nobody delivers them again.
delete from ascertain.inbox_messages where received_at < clock_timestamp() - $1::interval
