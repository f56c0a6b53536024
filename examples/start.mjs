// Starts a task with nothing but fetch, as any language can that speaks HTTP and JSON, and waits for its result:
//   TEMPORAL_HTTP=http://127.0.0.1:7243 node examples/start.mjs examples/first.json
import { readFile } from "node:fs/promises";

const { TEMPORAL_HTTP, TEMPORAL_NAMESPACE = "default", TASK_QUEUE = "ascertain" } = process.env;
const task = JSON.parse(await readFile(process.argv[2], "utf8"));
const workflow = `${TEMPORAL_HTTP}/api/v1/namespaces/${TEMPORAL_NAMESPACE}/workflows/${encodeURIComponent(task.task_id)}`;

async function ask(path, body) {
  const answer = await fetch(workflow + path, body && { method: "POST", body: JSON.stringify(body) });
  const said = await answer.json();
  if (answer.ok) return said;
  console.error(said.message);
  process.exit(1);
}

await ask("", {
  workflowType: { name: "Task" },
  taskQueue: { name: TASK_QUEUE },
  input: [task],
  workflowIdReusePolicy: "WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE",
  searchAttributes: { indexedFields: { TaskKind: task.kind, TaskPartition: task.partition ?? "default" } },
});

let last;
while (!last) {
  const told = await ask(
    "/history?waitNewEvent=true&historyEventFilterType=HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT",
  );
  last = told.history?.events?.[0];
}
const [result] = last.workflowExecutionCompletedEventAttributes?.result ?? [];
if (!result) {
  console.error(last.workflowExecutionFailedEventAttributes?.failure?.message ?? last.eventType);
  process.exit(1);
}
console.log(result.outcome, ...result.steps.map((step) => step.receipt?.external_id));
