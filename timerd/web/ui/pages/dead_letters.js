// Tasks that used up their attempts, and their second life.
import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { call, change, usePoll } from "../api.js";
import { link } from "../places.js";
import { Action, Failure, Table } from "../parts.js";
import { counted, instant, number, relative, whole } from "../words.js";

/** The last line of an error says what it was, those before it where. */
function Trouble({ error }) {
  const lines = error.trim().split("\n");
  const last = lines[lines.length - 1].slice(0, 300);
  return lines.length < 2 ? last : html`<details><summary>${last}</summary><pre tabindex="0">${error}</pre></details>`;
}

// In one go: a purge of more is begun anew.
const MOST_PURGED = 10_000;

/** Page by page: {purged, halting, isAll}. */
async function purgePages(ask, request) {
  const sums = { purged: 0, halting: 0, isAll: false };
  let token = "";
  do {
    const reply = await ask("TimerService", "PurgeDeadLetters", { ...request, pageToken: token });
    sums.purged += number(reply.purged);
    sums.halting += number(reply.halting);
    token = reply.nextPageToken || "";
  } while (token && sums.purged < MOST_PURGED);
  return { ...sums, isAll: !token };
}

/** First it is said how many would go, which changes nothing. Who wants that types the number. */
function Purge({ queue, namespace, done }) {
  const box = useRef(null);
  const field = useRef(null);
  const [found, setFound] = useState(null);
  const [state, setState] = useState({ busy: false, error: "" });
  const surely = async (work) => {
    setState({ busy: true, error: "" });
    try {
      await work();
      setState({ busy: false, error: "" });
    } catch (error) {
      setState({ busy: false, error: error.message });
    }
  };
  const look = () => {
    setFound(null);
    box.current.showModal();
    return surely(async () => {
      // What dies from here on was not counted, and stays.
      const { engineTime } = await call("TimerService", "GetServerInfo");
      const request = { namespace, queue, endTime: engineTime };
      setFound({ request, ...(await purgePages(call, request)) });
    });
  };
  const go = (event) => {
    event.preventDefault();
    return surely(async () => {
      if (number(field.current.value.replaceAll(",", "")) !== found.purged) throw new Error(`This is not ${whole(found.purged)}: nothing was removed.`);
      const { purged } = await purgePages(change, { ...found.request, force: true });
      box.current.close();
      done(`${counted(purged, "dead letter")} removed for good.`);
    });
  };
  useEffect(() => () => box.current?.close(), []);
  const of = queue ? `of ${queue}` : `of all queues of the namespace ${namespace}`;
  return html`<button onClick=${look}>Purge</button>
    <dialog ref=${box} aria-label="Purge"><form onSubmit=${go}>
      ${found
        ? html`<p>${counted(found.purged, "dead letter")} ${of} would be removed for good${found.isAll ? "" : ", and others after these"}. So far nothing was.</p>
          ${found.halting > 0 && html`<p>${whole(found.halting)} stay, for their ordering keys stand still: redrive or skip them.</p>`}
          ${found.purged > 0 && html`<p><label>Type ${whole(found.purged)} to remove them <input ref=${field} autocomplete="off" required /></label></p>`}`
        : html`<p>${state.error ? "" : "Counting..."}</p>`}
      ${state.error && html`<p class="bad" role="alert">${state.error}</p>`}
      <div class="actions">${found?.purged > 0 && html`<button class="main" disabled=${state.busy}>Remove for good</button>`}
      <button type="button" onClick=${() => box.current.close()}>Leave it</button></div>
    </form></dialog>`;
}

export function DeadLetters({ query, namespace, mayAct }) {
  const queue = query.get("queue") || "";
  const page = query.get("page") || "";
  const [said, setSaid] = useState("");
  const [found, error, again] = usePoll(
    () => call("TimerService", "ListDeadLetters", { namespace, queue, pageSize: 50, pageToken: page }),
    page ? 0 : 10_000,
    [queue, page, namespace],
  );
  const letters = found?.deadLetters || [];
  const done = (sentence) => {
    setSaid(sentence);
    again();
  };
  const redrive = async (request) => {
    const reply = await change("TimerService", "Redrive", { namespace, ...request });
    const refused = (reply.results || []).filter((each) => each.problem);
    return `${whole(reply.redriven)} live again.${refused.length ? ` ${refused.length} were refused: ${refused[0].problem.message}` : ""}`;
  };
  const choose = (event) => {
    event.preventDefault();
    location.hash = link("dead", "", { queue: new FormData(event.target).get("queue").trim() });
  };
  return html`<h1>Dead letters</h1>
    <form class="row" onSubmit=${choose}><label>queue<input name="queue" value=${queue} /></label><button class="main">Look</button></form>
    <${Failure} error=${error} />${said && html`<p class="notice" role="status">${said}</p>`}
    ${mayAct && letters.length > 0 && html`<div class="actions">${queue && html`<${Action} title="Redrive 1,000" question=${`The first 1,000 dead letters of ${queue} begin anew, with all of their attempts. ${whole(letters.length)} of them are shown below.`} done=${done} act=${() => redrive({ queue, maxRedriven: 1000 })} />`}
      <${Purge} queue=${queue} namespace=${namespace} done=${done} /></div>`}
    <${Table} caption="The first to die first" rows=${letters} empty="None." columns=${[
      { title: "task", id: true, value: (letter) => html`<a href=${link("task", letter.task.taskId)}>${letter.task.key || `${letter.task.taskId.slice(0, 22)}…`}</a>` },
      { title: "queue", value: (letter) => letter.task.queue },
      { title: "died", value: (letter) => html`<span title=${instant(letter.deathTime)}>${relative(letter.deathTime)}</span>` },
      { title: "attempts", number: true, value: (letter) => whole(letter.attempts) },
      { title: "last error", value: (letter) => html`<${Trouble} error=${letter.lastError || ""} />` },
      ...(mayAct ? [{ title: "action", value: (letter) => html`<${Action} title="Redrive" question="It begins anew, with all of its attempts." done=${done} act=${() => redrive({ taskIds: [letter.task.taskId] })} />` }] : []),
    ]} />
    ${found?.nextPageToken && html`<p><a href=${link("dead", "", { queue, page: found.nextPageToken })}>Go on</a></p>`}`;
}
