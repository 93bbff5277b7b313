// All queues, and one of them.
import { html, useState } from "../vendor/htm-preact.js";
import { call, change, usePoll } from "../api.js";
import { link } from "../places.js";
import { Action, Bars, Failure, Strip, Table } from "../parts.js";
import { counted, instant, mode, number, quantile, relative, short, span, whole } from "../words.js";
import { TaskTable } from "./tasks.js";

const settled = (queue, ...names) => names.reduce((all, name) => all + number(queue.settled?.[name]), 0);

// What becomes of a queue: the title of the button, the mode, what is asked, what is said.
const CHANGES = {
  RUNNING: ["Resume", "Its tasks are sent again, those that are due at once."],
  PAUSED: ["Pause", "Nothing of it is sent to workers until it is resumed; tasks are taken in."],
  DRAINING: ["Drain", "No task is taken in until it is resumed; those that it has are sent."],
  STOPPED: ["Stop", "Nothing is sent and nothing is taken in until it is resumed."],
};

/** "at most 5 with workers, 100 each 1 s, 10 at once". */
function limitText(limit) {
  if (!limit) return "";
  const parts = [];
  if (limit.maxInHand) parts.push(`at most ${whole(limit.maxInHand)} with workers`);
  if (limit.rate) parts.push(`${whole(limit.rate)} each ${limit.period || "1s"}`);
  if (limit.burst) parts.push(`${whole(limit.burst)} at once`);
  return parts.join(", ");
}

/** "printer: 3 of 5 with workers, 100 each 1 s; the next in 4 s": what queues share, as far as it is known. */
function sharedText(name, limits) {
  const found = limits.find((each) => each.name === name);
  if (!found?.limit) return `that of ${name}`;
  const { limit } = found;
  const hand = limit.maxInHand ? `${whole(found.inHand)} of ${whole(limit.maxInHand)} with workers` : "";
  const rate = limitText({ ...limit, maxInHand: 0 });
  const next = found.nextTime ? `; the next ${relative(found.nextTime)}` : "";
  const shared = number(found.queues?.length) > 1 ? `, shared by ${whole(found.queues.length)} queues` : "";
  return `${name}: ${[hand, rate].filter(Boolean).join(", ")}${next}${shared}`;
}

/** In which mode the queue is and why, and what may be made of that. */
function Rules({ queue, namespace, mayAct }) {
  const [found, , again] = usePoll(() => call("RegulationService", "GetQueue", { namespace, queue }), 3_000, [queue, namespace]);
  const [said, setSaid] = useState("");
  const rules = found?.queue;
  const names = rules?.limits || [];
  const [named] = usePoll(
    () => (names.length ? call("RegulationService", "ListLimits", { namespace, pageSize: 1000 }) : Promise.resolve({})),
    3_000,
    [namespace, names.join()],
  );
  // What is wrong with the name the rest of the page says.
  if (!rules) return null;
  const now = mode(rules.mode);
  const done = (sentence) => {
    setSaid(sentence);
    again();
  };
  const set = async (wanted, note) => {
    const { silent } = await change("RegulationService", "SetMode", { namespace, queue, mode: `QUEUE_MODE_${wanted}`, note: note || "" });
    return silent?.length ? `Not confirmed yet by ${silent.join(", ")}: they read it within 10 s.` : `It is ${wanted}, on every instance.`;
  };
  const until = rules.until ? `until ${instant(rules.until)} (${relative(rules.until)})` : "until it is resumed";
  const limit = [limitText(rules.limit), ...names.map((name) => sharedText(name, named?.limits || []))].filter(Boolean).join("; ");
  return html`${said && html`<p class="notice" role="status">${said}</p>`}
    ${now !== "RUNNING" && html`<p class="notice">This queue is <strong>${now}</strong> ${until}${rules.note ? `: ${rules.note}` : "."}</p>`}
    ${limit && html`<p class="quiet">Limit: ${limit}.</p>`}
    ${rules.heldUntil && html`<p class="notice">A handler was throttled, so nothing of it starts before ${instant(rules.heldUntil)}.</p>`}
    ${rules.breaker && html`<p class=${rules.breaker.until ? "notice" : "quiet"}>Breaker: ${(rules.breaker.state || "").replace("BREAKER_STATE_", "").replace("_", " ")}${rules.breaker.until ? ` until ${instant(rules.breaker.until)}` : ""}.</p>`}
    ${rules.adaptive && html`<p class="quiet">Adaptive: ${whole(rules.adaptive.limit)} of ${whole(rules.adaptive.floor)} to ${whole(rules.adaptive.ceiling)} with workers.</p>`}
    ${mayAct && html`<div class="actions">${Object.entries(CHANGES).filter(([wanted]) => wanted !== now).map(([wanted, [title, question]]) => html`
      <${Action} key=${wanted} title=${title} question=${question} input=${wanted === "RUNNING" ? null : { label: "why" }} done=${done} act=${(note) => set(wanted, note)} />`)}</div>`}`;
}

export function Queues({ overview, namespace }) {
  const [ruled] = usePoll(() => call("RegulationService", "ListQueues", { namespace, pageSize: 1000 }), 5_000, [namespace]);
  const modes = Object.fromEntries((ruled?.queues || []).map((queue) => [queue.name, mode(queue.mode)]));
  const modeOf = (queue) => (queue.namespace ? modes[queue.queue] || "RUNNING" : "");
  const { found, error } = overview;
  const queues = (found?.queues || []).filter((queue) => queue.namespace === namespace || !queue.namespace);
  const others = [...new Set((found?.queues || []).map((queue) => queue.namespace))].filter((name) => name && name !== namespace);
  const p99 = (queue) => {
    const ms = quantile(overview.since(queue.queue, queue.namespace).counts, found.latenessBoundsMs, 0.99);
    return ms === null ? "–" : `≤ ${span(ms)}`;
  };
  return html`<h1>Queues</h1><${Failure} error=${error} />
    <${Table} caption=${`Of the namespace ${namespace}, of all instances together`} rows=${queues} empty="No queue of this namespace has been used since the start." columns=${[
      { title: "queue", value: (q) => (q.namespace ? html`<a href=${link("queue", q.queue)}>${q.queue}</a>` : "(all others)") },
      { title: "mode", value: (q) => html`<span class=${["", "RUNNING"].includes(modeOf(q)) ? "quiet" : "warn"}>${modeOf(q)}</span>` },
      { title: "to come", number: true, value: (q) => whole(q.pending) },
      { title: "due", number: true, value: (q) => whole(q.due) },
      { title: "with workers", number: true, value: (q) => whole(q.inHand) },
      { title: "sent/s", number: true, value: (q) => short(overview.since(q.queue, q.namespace).perSecond) },
      { title: "late, p99", number: true, value: p99 },
      { title: "acked", number: true, value: (q) => short(settled(q, "acked")) },
      { title: "failed", number: true, value: (q) => short(settled(q, "failed", "timed_out", "lost", "rejected")) },
      { title: "dead", number: true, value: (q) => whole(q.dead) },
      { title: "workers", number: true, value: (q) => html`<span class=${number(q.due) && !number(q.workers) ? "bad" : ""}>${whole(q.workers)}</span>` },
    ]} />
    ${others.length > 0 && html`<p class="quiet">Other namespaces in use: ${others.map((name) => html`<a href=${`#/queues?namespace=${encodeURIComponent(name)}`}>${name}</a> `)}</p>`}`;
}

/**
 * The next tasks of a queue. Where hundreds of others come before them, they are looked for in the first minute that has some by
 * the estimates: to read through all that lies between would cost the server more than a page may.
 */
async function nextTasks(namespace, queue) {
  const now = Date.now();
  const at = (ms) => new Date(ms).toISOString();
  const list = (fromMs, maxScanned) =>
    call("TimerService", "List", { namespace, pageSize: 20, maxScanned, filter: { queue, startTime: at(fromMs), endTime: at(now + 86_400_000) } });
  const near = await list(now - 300_000, 100);
  if (near.tasks?.length || !near.nextPageToken) return near;
  const load = await call("OverviewService", "GetLoad", { namespace, queue });
  const minutes = (load.tasks || []).map((count, minute) => (number(count) ? Date.parse(load.startTime) + minute * 60_000 : 0));
  const first = minutes.find((minute) => minute >= Date.parse(near.scannedThrough));
  return first ? list(first, 250) : near;
}

export function Queue({ what, namespace, overview, mayAct }) {
  const queue = (overview.found?.queues || []).find((each) => each.queue === what && each.namespace === namespace) || {};
  const [load, error] = usePoll(() => call("OverviewService", "GetLoad", { namespace, queue: what }), 10_000, [what, namespace]);
  const [coming] = usePoll(() => nextTasks(namespace, what), 10_000, [what, namespace]);
  const now = overview.since(what, namespace);
  const late = quantile(now.counts, overview.found?.latenessBoundsMs || [], 0.99);
  const tasks = (load?.tasks || []).map(number);
  return html`<h1>Queue ${what}</h1><${Failure} error=${error || overview.error} />
    <${Rules} queue=${what} namespace=${namespace} mayAct=${mayAct} />
    <${Strip} figures=${[
      ["to come", short(queue.pending)], ["due", short(queue.due)], ["with workers", short(queue.inHand)],
      ["sent a second", short(now.perSecond)], ["lateness, p99", late === null ? "–" : `≤ ${span(late)}`],
      ["workers", whole(queue.workers), number(queue.due) && !number(queue.workers) ? "bad" : ""], ["dead", whole(queue.dead)],
    ]} />
    <h2>The next hour</h2>
    ${load && html`<${Bars} values=${tasks} label=${`Tasks of each of the next ${tasks.length} minutes; ${whole(tasks.reduce((a, b) => a + b, 0))} in all`} />
    <p class="quiet">A bar a minute, by estimates; the highest is ${counted(Math.max(0, ...tasks), "task")}.</p>`}
    <h2>How deliveries ended</h2>
    <${Table} caption="Since the start of the instances" rows=${Object.entries(queue.settled || {})} empty="None has ended yet." columns=${[
      { title: "end", value: ([name]) => name.replace("_", " ") },
      { title: "deliveries", number: true, value: ([, count]) => whole(count) },
    ]} />
    <h2>Next tasks</h2>
    ${coming && html`<${TaskTable} tasks=${coming.tasks || []} empty=${coming.nextPageToken ? "None so far." : "None within a day."} />`}
    ${coming?.nextPageToken && html`<p class="quiet">Looked through to ${instant(coming.scannedThrough)}. <a href=${link("tasks", "", { queue: what })}>Look further</a></p>`}
    <p><a href=${link("dead", "", { queue: what })}>Dead letters of this queue</a></p>`;
}
