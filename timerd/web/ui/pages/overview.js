// What is going on: figures of now, the next hour minute by minute, and what is wrong.
import { html, useRef } from "../vendor/htm-preact.js";
import { call, readJson, usePoll } from "../api.js";
import { link } from "../places.js";
import { Failure, Strip, Table } from "../parts.js";
import { clock, counted, number, quantile, short, span, whole } from "../words.js";

const EVERY_MS = 2000;
// Rates and lateness are those of the last minute, or of as much of it as this page has seen.
const SAMPLES = 30;

/** GetOverview every two seconds, and what changed between the first sample that is kept and the last. */
export function useOverview() {
  const samples = useRef([]);
  const [found, error, again] = usePoll(
    async () => {
      const overview = await call("OverviewService", "GetOverview");
      samples.current = [...samples.current, { atMs: Date.now(), overview }].slice(-SAMPLES);
      return overview;
    },
    EVERY_MS,
    [],
  );
  return { found, error, again, since: (name, namespace) => recent(samples.current, name, namespace) };
}

/** {perSecond, counts, dead} of one queue, or of all queues of all namespaces where none is named. */
function recent(samples, name, namespace) {
  if (samples.length < 2) return { perSecond: 0, counts: [], dead: 0 };
  const [first, last] = [samples[0], samples[samples.length - 1]];
  const of = (overview) => (overview.queues || []).filter((queue) => !name || (queue.queue === name && queue.namespace === namespace));
  const sums = (overview) => {
    const counts = [];
    let sent = 0;
    let dead = 0;
    for (const queue of of(overview)) {
      sent += number(queue.sent);
      dead += number(queue.dead);
      (queue.latenessCounts || []).forEach((each, place) => (counts[place] = (counts[place] || 0) + number(each)));
    }
    return { sent, dead, counts };
  };
  const [before, after] = [sums(first.overview), sums(last.overview)];
  const seconds = Math.max(1, (last.atMs - first.atMs) / 1000);
  // An instance that started anew begins at 0.
  const more = (now, then) => Math.max(0, now - (then || 0));
  return {
    perSecond: more(after.sent, before.sent) / seconds,
    dead: more(after.dead, before.dead),
    counts: after.counts.map((each, place) => more(each, before.counts[place])),
  };
}

const sum = (queues, field) => queues.reduce((all, queue) => all + number(queue[field]), 0);

export function Overview({ overview, namespace }) {
  const { found, error } = overview;
  const [load] = usePoll(() => call("OverviewService", "GetLoad", { namespace }), 10_000, [namespace]);
  const [health] = usePoll(() => readJson("readyz"), 5_000, []);
  if (!found) return html`<h1>Overview</h1><${Failure} error=${error} />${!error && html`<p class="quiet">Asking...</p>`}`;
  const queues = (found.queues || []).filter((queue) => queue.namespace === namespace || !queue.namespace);
  const now = overview.since();
  const bounds = found.latenessBoundsMs || [];
  const late = (share) => {
    const ms = quantile(now.counts, bounds, share);
    return ms === null ? "–" : `≤ ${span(ms)}`;
  };
  const oldest = Math.max(0, ...(found.instances || []).map((each) => number(each.oldestDueMs)));
  const wrong = sentences(found, health);
  const figures = [
    ["due now", short(sum(found.queues || [], "due"))],
    ["with workers", short(sum(found.instances || [], "inFlight"))],
    ["fired a second", short(now.perSecond)],
    ["lateness, half", late(0.5)],
    ["lateness, p99", late(0.99)],
    ["oldest due", oldest ? span(oldest) : "–", oldest > 60_000 ? "warn" : ""],
    ["to come", short(sum(queues, "pending"))],
    ["dead letters", short(sum(found.queues || [], "dead"))],
  ];
  return html`<h1>Overview</h1>
    <${Failure} error=${error} />
    ${wrong.map((sentence) => html`<p class="notice" role="status">${sentence}</p>`)}
    <${Strip} figures=${figures} />
    <p class="quiet">${found.instances?.length === 1 ? "Of one instance" : `Of ${found.instances?.length || 0} instances together`}: counters since the start, rates of the last minute.</p>
    <${Canary} instances=${found.instances || []} />
    <${Books} ledger=${found.ledger} />
    <h2>The next hour</h2>
    ${load ? html`<${HourMap} load=${load} />` : html`<p class="quiet">Asking...</p>`}
    <h2>Busiest queues</h2>
    <${Table} caption="The ten queues with most due and to come" rows=${busiest(queues)} empty="No queue has been used since the start." columns=${[
      { title: "queue", value: (q) => html`<a href=${link("queue", q.queue)}>${q.queue}</a>` },
      { title: "to come", number: true, value: (q) => whole(q.pending) },
      { title: "due", number: true, value: (q) => whole(q.due) },
      { title: "with workers", number: true, value: (q) => whole(q.inHand) },
      { title: "workers", number: true, value: (q) => whole(q.workers) },
      { title: "dead", number: true, value: (q) => whole(q.dead) },
    ]} />`;
}

/** Whether what was stored has a known end, by the control rows of what is kept. */
function Books({ ledger }) {
  if (!ledger) return null;
  const ends = ["acked", "cancelled", "moved", "carried", "expired", "dead", "purged"].filter((name) => number(ledger[name]));
  const sums = ends.map((name) => `${whole(ledger[name])} ${name}`);
  const unexplained = number(ledger.unexplained);
  return html`<p class=${unexplained ? "notice" : "quiet"}>Ledger: ${counted(ledger.inserted, "row")} that ended = ${sums.join(" + ") || "0"} + <strong class=${unexplained ? "bad" : "good"}>${whole(unexplained)} unexplained</strong>, in the history that is kept.</p>`;
}

/** Of the instance whose last canary, a task that it gives itself, came through the longest ago. */
function Canary({ instances }) {
  const [last] = instances.filter((each) => each.canary).sort((a, b) => number(b.canary.ageMs) - number(a.canary.ageMs));
  if (!last) return null;
  const ago = html`<strong class=${isLate(last.canary) ? "bad" : "good"}>${span(number(last.canary.ageMs))} ago</strong>`;
  return html`<p class="quiet">Canary: the last one came through ${ago}${instances.length > 1 ? `, on ${last.name}` : ""}.</p>`;
}

// Each may take 15 s on its three ways.
const isLate = (each) => number(each.ageMs) > 2 * number(each.intervalMs) + 15_000;

const busiest = (queues) =>
  [...queues].sort((a, b) => number(b.due) - number(a.due) || number(b.pending) - number(a.pending)).slice(0, 10);

function sentences(found, health) {
  const silent = (found.silent || []).map((name) => `The instance ${name} does not answer: its figures are missing here.`);
  const broken = sum(found.instances || [], "schedulesBroken");
  const stuck = (found.instances || []).filter((each) => each.canary && isLate(each.canary));
  const idle = (found.queues || []).filter((queue) => queue.lacksWorker);
  return [
    ...silent,
    ...Object.values(health?.wrong || {}).flatMap((reasons) => Object.values(reasons)),
    ...(broken ? [`${counted(broken, "schedule")} cannot go on: see Schedules, state BROKEN.`] : []),
    ...stuck.map((each) => `No canary of ${each.name} has come through for ${span(number(each.canary.ageMs))}: it may not fire what callers give it.`),
    ...idle.map((queue) => `The queue ${queue.queue} has no worker, and ${waiting(queue)}.`),
  ];
}

/** What came due long ago lies in the store, where it is not counted. */
function waiting(queue) {
  if (!queue.hasBacklog) return `${whole(queue.due)} due`;
  return number(queue.due) ? `${whole(queue.due)} due, beside what waits in the store` : "what came due before waits in the store";
}

/** A column for each bucket of five minutes, a row for each of its minutes. */
export function HourMap({ load }) {
  const start = new Date(load.startTime).getTime();
  const tasks = (load.tasks || []).map(number);
  const columns = Array.from({ length: 12 }, (_, place) => place);
  const most = Math.max(1, ...tasks);
  const level = (count) => (count ? `l${1 + Math.min(5, Math.floor((5 * Math.log(count)) / Math.max(1, Math.log(most))))}` : "");
  return html`<div class="wide" tabindex="0" role="region" aria-label="Tasks of each minute of the next hour"><table class="map">
    <caption>Tasks due in each minute, about: a column has five minutes, from the time above it on.</caption>
    <thead><tr><th scope="col"><span class="hidden">minute</span></th>${columns.map((place) => html`<th scope="col">${clock(start + place * 300_000)}</th>`)}</tr></thead>
    <tbody>${[0, 1, 2, 3, 4].map(
      (minute) => html`<tr><th scope="row">+${minute}</th>${columns.map((place) => {
        const at = start + (place * 5 + minute) * 60_000;
        const count = tasks[place * 5 + minute] || 0;
        const range = { from: new Date(at).toISOString(), to: new Date(at + 60_000).toISOString() };
        return html`<td class=${level(count)} title=${`${clock(at)}: ${counted(count, "task")}`}>${count ? html`<a href=${link("tasks", "", range)}>${short(count)}</a>` : ""}</td>`;
      })}</tr>`,
    )}</tbody></table></div>`;
}
