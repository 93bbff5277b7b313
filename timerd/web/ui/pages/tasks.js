// Looking for tasks, and one of them.
import { html, useState } from "../vendor/htm-preact.js";
import { CallError, call, change, usePoll } from "../api.js";
import { link } from "../places.js";
import { Action, Failure, Table } from "../parts.js";
import { instant, payload, relative, state, whole } from "../words.js";

const STATES = ["PENDING", "IN_FLIGHT", "RETRYING", "ACKED", "CANCELLED", "DEAD", "EXPIRED"];

export function TaskTable({ tasks, empty }) {
  return html`<${Table} caption="By the time at which they are due" rows=${tasks} empty=${empty} columns=${[
    { title: "task", id: true, value: (task) => html`<a href=${link("task", task.taskId)}>${task.key || `${task.taskId.slice(0, 22)}…`}</a>` },
    { title: "queue", value: (task) => task.queue },
    { title: "state", value: (task) => state(task.state, "TASK") },
    { title: "due", value: (task) => html`<span title=${instant(task.dueTime || task.fireTime)}>${relative(task.dueTime || task.fireTime)}</span>` },
    { title: "labels", value: (task) => Object.entries(task.labels || {}).map(([name, value]) => `${name}=${value}`).join(" ") },
  ]} />`;
}

/** An id or a key names one task; all else is looked for in a range of time. */
async function search(namespace, asked) {
  if (asked.which) {
    const task = await named(namespace, asked.which);
    return { tasks: [task] };
  }
  const [label, value] = (asked.label || "").split("=");
  const filter = {
    queue: asked.queue || "",
    startTime: asked.from || new Date(Date.now() - 3_600_000).toISOString(),
    endTime: asked.to || new Date(Date.now() + 30 * 86_400_000).toISOString(),
    states: asked.state ? [`TASK_STATE_${asked.state}`] : [],
    labels: label ? { [label]: value || "" } : {},
  };
  return call("TimerService", "List", { namespace, filter, pageSize: 50, maxScanned: 2000, pageToken: asked.page || "" });
}

async function named(namespace, which) {
  try {
    return (await call("TimerService", "Get", { namespace, taskId: which })).task;
  } catch (error) {
    if (!(error instanceof CallError) || error.code === "unauthenticated") throw error;
    return (await call("TimerService", "Get", { namespace, key: which })).task;
  }
}

export function Tasks({ query, namespace }) {
  const asked = Object.fromEntries(query);
  const [found, error] = usePoll(() => search(namespace, asked), 0, [query.toString(), namespace]);
  const go = (event) => {
    event.preventDefault();
    const fields = Object.fromEntries([...new FormData(event.target)].filter(([, value]) => value.trim()));
    location.hash = link("tasks", "", fields);
  };
  const field = (name, title, size) => html`<label>${title}<input name=${name} size=${size} value=${asked[name] || ""} /></label>`;
  return html`<h1>Tasks</h1>
    <form class="row" onSubmit=${go} role="search">
      ${field("which", "id or key", 30)} ${field("queue", "queue", 14)} ${field("label", "label, name=value", 14)}
      <label>state<select name="state" value=${asked.state || ""}><option value="">still to come</option>${STATES.map((name) => html`<option>${name}</option>`)}</select></label>
      ${field("from", "from (UTC)", 20)} ${field("to", "to (UTC)", 20)}
      <button class="main">Look</button>
    </form>
    <${Failure} error=${error} />
    ${found && html`<${TaskTable} tasks=${found.tasks || []} empty="None in this range." />`}
    ${found?.scannedThrough && html`<p class="quiet">Looked through to ${instant(found.scannedThrough)}.</p>`}
    ${found?.nextPageToken && html`<p><a href=${link("tasks", "", { ...asked, page: found.nextPageToken })}>Go on</a></p>`}`;
}

/** Attempts that failed, the last one first. */
function History({ attempts }) {
  return html`<${Table} caption="Attempts that failed, the last ten" rows=${[...attempts].reverse()} columns=${[
    { title: "attempt", number: true, value: (each) => whole(each.attempt) },
    { title: "sent", value: (each) => instant(each.sendTime) },
    { title: "ended", value: (each) => instant(each.endTime) },
    { title: "how", value: (each) => each.end.replace("ATTEMPT_END_", "") },
    { title: "worker", value: (each) => each.worker || "" },
    { title: "error", value: (each) => each.error || "" },
  ]} />`;
}

export function TaskView({ what, namespace, mayAct }) {
  const [task, error, again] = usePoll(() => named(namespace, what), 2000, [what, namespace]);
  const [said, setSaid] = useState("");
  if (!task) return html`<h1>Task</h1><${Failure} error=${error} />`;
  const name = state(task.state, "TASK");
  const isOpen = ["PENDING", "IN_FLIGHT", "RETRYING"].includes(name);
  const done = (sentence) => {
    setSaid(sentence);
    again();
  };
  const facts = [
    ["state", task.isCancelling ? `${name}; it was cancelled, and no other attempt follows` : name], ["waits for", task.waitingFor?.description], ["queue", task.queue], ["key", task.key], ["fire time", `${instant(task.fireTime)} (${relative(task.fireTime)})`],
    ["due", task.dueTime && task.dueTime !== task.fireTime ? `${instant(task.dueTime)} (${relative(task.dueTime)})` : ""],
    ["attempts begun", task.attempt ? whole(task.attempt) : ""], ["last error", task.lastError], ["priority", task.priority ? whole(task.priority) : ""],
    ["labels", Object.entries(task.labels || {}).map(([label, value]) => `${label}=${value}`).join(" ")],
    ["expires", instant(task.expireTime)], ["content type", task.contentType], ["trace", task.traceparent],
    ["attempts at most", task.retry?.maxAttempts ? whole(task.retry.maxAttempts) : ""],
  ];
  return html`<h1>Task ${task.key || ""}</h1><p class="mono">${task.taskId}</p><${Failure} error=${error} />
    ${said && html`<p class="notice" role="status">${said}</p>`}
    ${mayAct && isOpen && html`<div class="actions">
      <${Action} title="Cancel" question="After this no delivery of it starts." done=${done} act=${async () => `The server says ${(await change("TimerService", "Cancel", { namespace, taskId: task.taskId })).outcome.replace("CANCEL_OUTCOME_", "")}.`} />
      <${Action} title="Fire now" question="It becomes due at once." done=${done} act=${async () => { await change("TimerService", "FireNow", { namespace, taskId: task.taskId }); return "It is due now."; }} />
      <${Action} title="Move" question="It gets another fire time." input=${{ label: "in so many seconds", type: "number", value: "60" }} done=${done} act=${async (seconds) => { const moved = await change("TimerService", "Reschedule", { namespace, taskId: task.taskId, delay: `${Number(seconds)}s` }); return `It fires at ${instant(moved.fireTime)}.`; }} />
    </div>`}
    <${Table} caption="What the server knows of it" rows=${facts.filter(([, value]) => value)} columns=${[{ title: "field", value: ([title]) => title }, { title: "value", value: ([, value]) => value }]} />
    ${task.history && html`<${History} attempts=${task.history} />`}
    <h2>Payload</h2>${task.payload ? html`<pre tabindex="0">${payload(task.payload)}</pre>` : html`<p class="quiet">Empty.</p>`}`;
}
