// Who is connected.
import { html } from "../vendor/htm-preact.js";
import { link } from "../places.js";
import { Failure, Table } from "../parts.js";
import { instant, relative, whole } from "../words.js";

export function Workers({ overview, namespace }) {
  const { found, error } = overview;
  const instances = found?.instances || [];
  const workers = instances.flatMap((each) => (each.workers || []).map((worker) => ({ ...worker, instance: each.name }))).filter((each) => each.namespace === namespace);
  const all = instances.reduce((sum, each) => sum + (each.workerCount || 0), 0);
  return html`<h1>Workers</h1><${Failure} error=${error} />
    <${Table} caption=${`Work streams of the namespace ${namespace}; ${whole(all)} in all namespaces`} rows=${workers} empty="No worker is connected." columns=${[
      { title: "worker", value: (worker) => worker.worker || "(no name)" },
      { title: "instance", value: (worker) => worker.instance },
      { title: "queues", value: (worker) => html`${(worker.queues || []).map((name) => html`<a href=${link("queue", name)}>${name}</a> `)}${worker.queueCount > (worker.queues || []).length ? `and ${worker.queueCount - worker.queues.length} more` : ""}` },
      { title: "settled", number: true, value: (worker) => whole(worker.settled) },
      { title: "last settled", value: (worker) => (worker.lastSettleTime ? relative(worker.lastSettleTime) : "never") },
      { title: "connected", value: (worker) => html`<span title=${instant(worker.connectTime)}>${relative(worker.connectTime)}</span>` },
    ]} />`;
}
