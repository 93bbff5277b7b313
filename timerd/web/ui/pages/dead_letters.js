// Tasks that used up their attempts, and their second life.
import { html, useState } from "../vendor/htm-preact.js";
import { call, change, usePoll } from "../api.js";
import { link } from "../places.js";
import { Action, Failure, Table } from "../parts.js";
import { instant, relative, whole } from "../words.js";

/** The last line of an error says what it was, those before it where. */
function Trouble({ error }) {
  const lines = error.trim().split("\n");
  const last = lines[lines.length - 1].slice(0, 300);
  return lines.length < 2 ? last : html`<details><summary>${last}</summary><pre tabindex="0">${error}</pre></details>`;
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
    ${mayAct && queue && letters.length > 0 && html`<div class="actions"><${Action} title="Redrive 1,000" question=${`The first 1,000 dead letters of ${queue} begin anew, with all of their attempts. ${whole(letters.length)} of them are shown below.`} done=${done} act=${() => redrive({ queue, maxRedriven: 1000 })} /></div>`}
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
