-- name: commit_durably
-- A claim must be on disk before it is answered, whatever the server's default is.
select set_config('synchronous_commit', 'on', false)
where current_setting('synchronous_commit') = 'off'
