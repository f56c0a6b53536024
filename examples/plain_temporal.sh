#!/bin/sh
# Takes a partition through an incident with the Temporal CLI alone: pause, look, take over, decide, resume.
#   plain_temporal.sh PARTITION TASK OPERATOR EXTERNAL_ID
# EXTERNAL_ID is the outside's own id of the fact, as a person has seen it there. Needs TEMPORAL_ADDRESS and
# TEMPORAL_NAMESPACE, or the defaults of `temporal`; TASK_QUEUE if the deployment's is not "ascertain".
set -eu
partition=$1 task=$2 operator=$3 fact=$4
queue=${TASK_QUEUE:-ascertain}

# The open effect and its version, out of the task's own answer.
status() { temporal workflow query --workflow-id "$task" --type status --output json; }
field() { status | tr -d ' \n' | sed -n "s/.*\"open\":{.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p"; }

# What was sent before may still take effect; a command that comes too early is refused, and told again.
decide() {
    want=$1 json=$2
    for _ in $(seq 60); do
        version=$(field version)
        effect=$(field effect_id)
        temporal workflow signal --workflow-id "$task" --name takeover --input "{$json,
            \"operator\": \"$operator\", \"version\": $version, \"effect_id\": \"$effect\"}"
        for _ in $(seq 10); do
            now=$(status | tr -d ' \n')
            case $now in *"\"state\":\"$want\""*) return ;; esac
        done
    done
    echo "$task was not decided; see refused_commands above" >&2
    exit 1
}

gate() {
    temporal workflow execute --type Gate --task-queue "$queue" --workflow-id "gate-$partition-$$-$1" \
        --input "{\"partition\": \"$partition\", \"paused\": $1, \"operator\": \"$operator\", \"reason\": \"$2\"}"
}

# A task that nobody knows ends it before anything is paused; what ends it later is no reason to resume.
status >/dev/null
paused() { echo "partition $partition is paused, or about to be: resume it when that is right" >&2; }
trap paused EXIT

echo "== Pause: comes back when nothing of the partition can be sent any more"
gate true "the provider is in trouble"

echo "== Look"
temporal workflow list --query "TaskPartition = '$partition' AND TaskState = 'QUARANTINED' AND ExecutionStatus = 'Running'"
status

echo "== Take it over, and say what was seen outside"
decide TAKEN_OVER '"action": "take", "reason": "on it"'
decide DONE "\"action\": \"confirm\", \"reason\": \"seen in the dashboard\",
    \"receipt\": {\"external_id\": \"$fact\"}"
temporal workflow query --workflow-id "$task" --type timeline --output json

echo "== Resume, and wake what was held instead of letting it look by itself"
gate false "the provider is back, and what had stopped is decided"
trap - EXIT
temporal workflow signal --query "TaskPartition = '$partition' AND TaskState = 'HELD' AND ExecutionStatus = 'Running'" --name resume \
    --reason "partition $partition is open again" --yes
