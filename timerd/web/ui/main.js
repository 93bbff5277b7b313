// The frame: which page is shown, for which namespace, and whether somebody has to say who they are.
import { html, render, useEffect, useState } from "./vendor/htm-preact.js";
import { setToken } from "./api.js";
import { link, route } from "./places.js";
import { Cluster } from "./pages/cluster.js";
import { DeadLetters } from "./pages/dead_letters.js";
import { Live } from "./pages/live.js";
import { Overview, useOverview } from "./pages/overview.js";
import { Queue, Queues } from "./pages/queues.js";
import { Schedules, ScheduleView } from "./pages/schedules.js";
import { Tasks, TaskView } from "./pages/tasks.js";
import { Workers } from "./pages/workers.js";

// The server has written on it whether the page offers changes.
const PAGE = document.getElementById("page");
const PAGES = [
  ["", "Overview", Overview],
  ["queues", "Queues", Queues],
  ["tasks", "Tasks", Tasks],
  ["live", "Live", Live],
  ["dead", "Dead letters", DeadLetters],
  ["schedules", "Schedules", Schedules],
  ["workers", "Workers", Workers],
  ["cluster", "Cluster", Cluster],
];
const SINGLE = { queue: [Queue, "queues"], task: [TaskView, "tasks"], schedule: [ScheduleView, "schedules"] };

function useRoute() {
  const [shown, setShown] = useState(route());
  useEffect(() => {
    const look = () => {
      setShown(route());
      document.querySelector("main")?.focus();
    };
    addEventListener("hashchange", look);
    return () => removeEventListener("hashchange", look);
  }, []);
  return shown;
}

function Namespace({ namespace }) {
  const choose = (event) => {
    event.preventDefault();
    const name = new FormData(event.target).get("namespace").trim();
    location.hash = `#/${route().page}${name && name !== "default" ? `?namespace=${encodeURIComponent(name)}` : ""}`;
  };
  return html`<form onSubmit=${choose}><label>namespace <input name="namespace" size="12" value=${namespace} /></label></form>`;
}

function Login({ again }) {
  const enter = (event) => {
    event.preventDefault();
    setToken(new FormData(event.target).get("token").trim());
    again();
  };
  return html`<form class="row" onSubmit=${enter}>
    <label>This server asks who calls. Your token: <input name="token" type="password" autocomplete="off" required /></label>
    <button class="main">Go on</button></form>
    <p class="quiet">It is kept by this tab and sent with each call.</p>`;
}

function Frame() {
  const { page, what, query } = useRoute();
  const namespace = query.get("namespace") || "default";
  const overview = useOverview();
  const [Single, home] = SINGLE[page] || [null, page];
  const shown = PAGES.find(([name]) => name === home) || PAGES[0];
  const Page = Single || shown[2];
  useEffect(() => {
    document.title = `${what || shown[1]} · timerd`;
  }, [page, what]);
  const isStranger = overview.error?.code === "unauthenticated";
  return html`<header>
      <a class="skip" href="#/${page}" onClick=${() => document.querySelector("main").focus()}>To the content</a>
      <strong>timerd</strong>
      <nav aria-label="Pages">${PAGES.map(
        ([name, title]) => html`<a href=${link(name)} aria-current=${name === shown[0] ? "page" : undefined}>${title}</a>`,
      )}</nav>
      <${Namespace} namespace=${namespace} key=${namespace} />
    </header>
    <main tabindex="-1">${
      isStranger
        ? html`<h1>Who are you?</h1><${Login} again=${overview.again} />`
        : html`<${Page} key=${`${page}/${what}/${namespace}`} what=${what} query=${query} namespace=${namespace} overview=${overview} mayAct=${PAGE.dataset.mayAct === "true"} />`
    }</main>`;
}

render(html`<${Frame} />`, PAGE);
