// Deliveries as they happen: a line each, from all instances, as many as a person can read.
import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { follow } from "../api.js";
import { link } from "../places.js";
import { Failure, Strip, Table } from "../parts.js";
import { instant, span, whole } from "../words.js";

const MOST_LINES = 200;
const AGAIN_MS = 2000;
const NOTHING = { lines: [], told: 0, leftOut: 0, silent: [], isOpen: false, error: null };
const LOOKS = { acked: "good", failed: "warn", dead: "bad", expired: "bad" };

/** The end of a delivery goes to the line that told of its sending. */
function withEvents(lines, events) {
  const shown = [...lines];
  for (const event of events) {
    const sent = event.kind === "sent" ? -1 : shown.findIndex((line) => line.task_id === event.task_id && line.attempt === event.attempt && !line.end);
    if (sent < 0) shown.unshift(event.kind === "sent" ? event : { ...event, end: event });
    else shown[sent] = { ...shown[sent], end: event };
  }
  return shown.slice(0, MOST_LINES);
}

function after(seen, said) {
  const told = said.events.filter((event) => event.kind === "sent").length;
  return { lines: withEvents(seen.lines, said.events), told: seen.told + told, leftOut: seen.leftOut + said.left_out, silent: said.silent, isOpen: true, error: null };
}

/** A connection stays open only while somebody looks: a browser has six for a host, for all of its tabs. */
function useLive(namespace, queue, isOn) {
  const [seen, setSeen] = useState(NOTHING);
  useEffect(() => setSeen(NOTHING), [namespace, queue]);
  useEffect(() => {
    if (!isOn) {
      setSeen((before) => ({ ...before, isOpen: false }));
      return undefined;
    }
    const stop = new AbortController();
    const asked = new URLSearchParams({ namespace, ...(queue && { queue }) });
    const read = async () => {
      while (!stop.signal.aborted) {
        try {
          await follow(`v1/watch?${asked}`, (said) => setSeen((before) => after(before, said)), stop.signal);
        } catch (error) {
          if (!stop.signal.aborted) setSeen((before) => ({ ...before, isOpen: false, error }));
        }
        await new Promise((done) => setTimeout(done, AGAIN_MS));
      }
    };
    read();
    return () => stop.abort();
  }, [namespace, queue, isOn]);
  return seen;
}

function useHidden() {
  const [hidden, setHidden] = useState(document.hidden);
  useEffect(() => {
    const look = () => setHidden(document.hidden);
    document.addEventListener("visibilitychange", look);
    return () => document.removeEventListener("visibilitychange", look);
  }, []);
  return hidden;
}

const time = (text) => new Date(text).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23" });

function End({ end }) {
  if (!end) return html`<span class="quiet">with its worker</span>`;
  const again = end.next_attempt_time ? `, again at ${time(end.next_attempt_time)}` : "";
  return html`<span class=${LOOKS[end.kind] || ""}>${end.kind.replace("_", " ")}</span> after ${span(end.took_ms || 0)}${again}`;
}

export function Live({ query, namespace }) {
  const queue = query.get("queue") || "";
  const [isPaused, setPaused] = useState(false);
  const hidden = useHidden();
  const seen = useLive(namespace, queue, !isPaused && !hidden);
  const choose = (event) => {
    event.preventDefault();
    location.hash = link("live", "", { queue: new FormData(event.target).get("queue").trim() });
  };
  const state = isPaused ? "paused" : seen.isOpen ? "live" : "connecting";
  return html`<h1>Live</h1><${Failure} error=${seen.error} />
    ${seen.silent.map((name) => html`<p class="notice" role="status">What the instance ${name} sends is not heard.</p>`)}
    <form class="row" onSubmit=${choose}><label>queue<input name="queue" value=${queue} /></label><button class="main">Look</button>
      <button type="button" aria-pressed=${isPaused ? "true" : "false"} onClick=${() => setPaused(!isPaused)}>${isPaused ? "Go on" : "Pause"}</button></form>
    <${Strip} figures=${[["now", state, state === "live" ? "good" : "warn"], ["shown", whole(seen.told)], ["left out", whole(seen.leftOut), seen.leftOut ? "warn" : ""]]} />
    <p class="quiet">At most 50 deliveries a second are shown; the others are counted as left out. The last ${MOST_LINES} stay here. While it is paused, or this tab is not seen, nothing is asked for, shown or counted.</p>
    <${Table} caption="The newest first" rows=${seen.lines} empty="Nothing has been sent since you look." columns=${[
      { title: "sent", value: (line) => html`<span title=${instant(line.time)}>${time(line.time)}</span>` },
      { title: "queue", value: (line) => html`<a href=${link("queue", line.queue)}>${line.queue}</a>` },
      { title: "task", id: true, value: (line) => html`<a href=${link("task", line.task_id)}>…${line.task_id.slice(38, 48)}</a>` },
      { title: "late", number: true, value: (line) => span(line.lateness_ms || 0) },
      { title: "attempt", number: true, value: (line) => whole(line.attempt) },
      { title: "worker", value: (line) => line.worker || "" },
      { title: "became", value: (line) => html`<${End} end=${line.end} />` },
      { title: "instance", value: (line) => line.instance },
    ]} />`;
}
