// Instances, and the partitions that they hold.
import { html } from "../vendor/htm-preact.js";
import { call, usePoll } from "../api.js";
import { Failure, Table } from "../parts.js";
import { bytes, counted, instant, number, relative, span, whole } from "../words.js";

const MOST_PARTITIONS = 200;

export function Cluster({ overview }) {
  const [cluster, error] = usePoll(() => call("TimerService", "GetCluster"), 5_000, []);
  const known = Object.fromEntries((overview.found?.instances || []).map((each) => [each.name, each]));
  const instances = cluster?.instances || [];
  const held = instances.flatMap((each) => (each.report?.partitions || []).map((part) => ({ ...part, holder: each.name })));
  const name = (state) => (state || "").replace("INSTANCE_STATE_", "");
  return html`<h1>Cluster</h1><${Failure} error=${error} />
    ${cluster && html`<${Table} caption="Instances on the same store" rows=${instances} columns=${[
      { title: "instance", value: (each) => each.name },
      { title: "state", value: (each) => html`<span class=${name(each.state) === "SERVING" ? "good" : "warn"}>${name(each.state)}</span>` },
      { title: "address", value: (each) => each.address },
      { title: "version", value: (each) => each.report?.version || "" },
      { title: "started", value: (each) => relative(known[each.name]?.startTime) },
      { title: "partitions", number: true, value: (each) => whole(each.report?.partitions?.length) },
      { title: "in memory", number: true, value: (each) => whole(known[each.name]?.loaded) },
      { title: "memory", number: true, value: (each) => (known[each.name] ? `${bytes(known[each.name].memoryUsedBytes)} of ${bytes(known[each.name].memoryBudgetBytes)}` : "") },
      { title: "clock", value: (each) => (each.report?.clockTrusted ? `${each.clockDifferenceMs || 0} ms` : html`<span class="bad">not trusted</span>`) },
    ]} />`}
    ${number(cluster?.overdueBuckets) > 0 && html`<p class="notice">${counted(cluster.overdueBuckets, "bucket")} should have been over for a while, the oldest since ${instant(cluster.oldestOverdueBucket)}.</p>`}
    <h2>Partitions</h2>
    <${Table} caption=${`Five minutes and a shard each; ${whole(held.length)} are held${held.length > MOST_PARTITIONS ? `, ${MOST_PARTITIONS} are shown` : ""}`} rows=${held.slice(0, MOST_PARTITIONS)} empty="None is held: nothing is due soon." columns=${[
      { title: "from", value: (part) => instant(number(part.bucketStartMs)) },
      { title: "shard", number: true, value: (part) => part.shard || 0 },
      { title: "holder", value: (part) => part.holder },
      { title: "phase", value: (part) => part.phase },
      { title: "waiting", number: true, value: (part) => whole(part.waiting) },
      { title: "with workers", number: true, value: (part) => whole(part.open) },
      { title: "lag", number: true, value: (part) => (number(part.lagMs) ? span(number(part.lagMs)) : "–") },
      { title: "token", number: true, value: (part) => whole(part.fencingToken) },
    ]} />`;
}
