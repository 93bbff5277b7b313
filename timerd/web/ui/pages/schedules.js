// What comes again.
import { html, useState } from "../vendor/htm-preact.js";
import { call, change, usePoll } from "../api.js";
import { link } from "../places.js";
import { Action, Failure, Table } from "../parts.js";
import { instant, relative, state, whole } from "../words.js";

const LOOKS = { BROKEN: "bad", PAUSED: "warn", ACTIVE: "good" };
const named = (schedule) => state(schedule.state, "SCHEDULE");

function when(spec) {
  const parts = (spec?.parts || []).map((part) => part.cron || part.rrule || (part.every && `every ${part.every.period}`) || (part.at && "listed times") || "calendar");
  if (spec?.fixedDelay) return `${spec.fixedDelay} after each end`;
  return `${parts.join(" and ")}${spec?.zone ? ` ${spec.zone}` : ""}`;
}

function Dots({ last }) {
  const ends = (last || []).map((each) => state(each.state, "TASK"));
  return html`<span class="dots" role="img" aria-label=${`Last ends: ${ends.join(", ") || "none"}`}>${ends.map((end) => html`<span class=${end} title=${end}></span>`)}</span>`;
}

export function Schedules({ query, namespace }) {
  const page = query.get("page") || "";
  const [found, error] = usePoll(() => call("ScheduleService", "ListSchedules", { namespace, pageSize: 100, pageToken: page }), 5_000, [namespace, page]);
  return html`<h1>Schedules</h1><${Failure} error=${error} />
    ${found && html`<${Table} caption="In no order" rows=${found.schedules || []} empty="None in this namespace." columns=${[
      { title: "schedule", value: (s) => html`<a href=${link("schedule", s.scheduleId)}>${s.scheduleId}</a>` },
      { title: "state", value: (s) => html`<span class=${LOOKS[named(s)] || ""}>${named(s)}</span>` },
      { title: "when", value: (s) => when(s.spec) },
      { title: "queue", value: (s) => s.template?.queue },
      { title: "created", number: true, value: (s) => whole(s.created) },
      { title: "missed", number: true, value: (s) => whole(s.missed) },
      { title: "skipped", number: true, value: (s) => whole(s.skipped) },
      { title: "last", value: (s) => html`<${Dots} last=${s.last} />` },
    ]} />`}
    ${found?.nextPageToken && html`<p><a href=${link("schedules", "", { page: found.nextPageToken })}>Go on</a></p>`}`;
}

export function ScheduleView({ what, namespace, mayAct }) {
  const asked = { namespace, scheduleId: what };
  const [found, error, again] = usePoll(() => call("ScheduleService", "GetSchedule", asked), 3_000, [what, namespace]);
  const [preview] = usePoll(() => call("ScheduleService", "PreviewSchedule", { ...asked, count: 20 }), 30_000, [what, namespace]);
  const [said, setSaid] = useState("");
  const schedule = found?.schedule;
  if (!schedule) return html`<h1>Schedule ${what}</h1><${Failure} error=${error} />`;
  const done = (sentence) => {
    setSaid(sentence);
    again();
  };
  const isPaused = named(schedule) === "PAUSED";
  const facts = [
    ["state", named(schedule)], ["when", when(schedule.spec)], ["queue", schedule.template?.queue], ["note", schedule.note], ["error", schedule.error],
    ["created", whole(schedule.created)], ["missed", whole(schedule.missed)], ["skipped", whole(schedule.skipped)], ["revision", whole(schedule.revision)],
    ["open task", schedule.openTaskId && html`<a class="mono" href=${link("task", schedule.openTaskId)}>${schedule.openTaskId}</a>`],
  ];
  return html`<h1>Schedule ${what}</h1><${Failure} error=${error} />${said && html`<p class="notice" role="status">${said}</p>`}
    ${mayAct && html`<div class="actions">
      ${isPaused
        ? html`<${Action} title="Resume" question="It goes on with its next instant, without what it missed." done=${done} act=${async () => { await change("ScheduleService", "ResumeSchedule", asked); return "It is active again."; }} />`
        : html`<${Action} title="Pause" question="No task of it starts until it is resumed." input=${{ label: "why" }} done=${done} act=${async (note) => { await change("ScheduleService", "PauseSchedule", { ...asked, note }); return "It is paused."; }} />`}
      <${Action} title="Trigger" question="A task of it is created now, beside those of its instants." done=${done} act=${async () => { await change("ScheduleService", "TriggerSchedule", asked); return "A task was created."; }} />
    </div>`}
    <${Table} caption="What the server knows of it" rows=${facts.filter(([, value]) => value)} columns=${[{ title: "field", value: ([title]) => title }, { title: "value", value: ([, value]) => value }]} />
    <p>Last ends: <${Dots} last=${schedule.last} /></p>
    <h2>Coming</h2>
    ${preview && html`<${Table} caption="By the definition of now" rows=${preview.occurrences || []} empty="No further instant." columns=${[
      { title: "instant", value: (each) => instant(each.instant) },
      { title: "from now", value: (each) => relative(each.instant) },
      { title: "local time", value: (each) => each.localTime },
      { title: "change of the clock", value: (each) => each.change },
    ]} />`}`;
}
