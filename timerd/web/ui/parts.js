// What pages are made of. All text is set as text: nothing that comes from a server is ever markup.
import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";

/** columns: [{title, value(row), number, id}]. */
export function Table({ caption, columns, rows, empty }) {
  if (!rows.length) return html`<p class="quiet">${empty || "None."}</p>`;
  const kind = (column) => (column.number ? "number" : column.id ? "id" : "");
  return html`<div class="wide" tabindex="0" role="region" aria-label=${caption}><table>
    <caption>${caption}</caption>
    <thead><tr>${columns.map((column) => html`<th scope="col" class=${column.number ? "number" : ""}>${column.title}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr>${columns.map((column) => html`<td class=${kind(column)}>${column.value(row)}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

export function Strip({ figures }) {
  return html`<dl class="strip">${figures.map(
    ([title, value, look]) => html`<div><dt>${title}</dt><dd class=${look || ""}>${value}</dd></div>`,
  )}</dl>`;
}

export function Failure({ error }) {
  return error && html`<p class="notice error" role="alert">${error.message}</p>`;
}

export function Bars({ values, label }) {
  const most = Math.max(1, ...values);
  const width = 100 / values.length;
  return html`<svg class="bars" viewBox="0 0 100 30" preserveAspectRatio="none" role="img" aria-label=${label}>
    <line x1="0" y1="30" x2="100" y2="30" stroke-width="0.4" />
    ${values.map((value, place) => {
      const height = value ? Math.max(0.6, (28 * value) / most) : 0;
      return html`<rect x=${place * width} y=${30 - height} width=${width * 0.82} height=${height} />`;
    })}
  </svg>`;
}

/** A button that asks before it acts, and says what came of it. `act` returns a sentence. */
export function Action({ title, question, act, done, disabled, input, kind }) {
  const box = useRef(null);
  const field = useRef(null);
  const [state, setState] = useState({ busy: false, error: "" });
  const go = async (event) => {
    event.preventDefault();
    setState({ busy: true, error: "" });
    try {
      const sentence = await act(field.current?.value);
      setState({ busy: false, error: "" });
      box.current.close();
      done?.(sentence);
    } catch (error) {
      setState({ busy: false, error: error.message });
    }
  };
  useEffect(() => () => box.current?.close(), []);
  return html`<button class=${kind || ""} disabled=${disabled} onClick=${() => box.current.showModal()}>${title}</button>
    <dialog ref=${box} aria-label=${title}><form onSubmit=${go}>
      <p>${question}</p>
      ${input && html`<p><label>${input.label} <input ref=${field} type=${input.type || "text"} value=${input.value || ""} required /></label></p>`}
      ${state.error && html`<p class="bad" role="alert">${state.error}</p>`}
      <div class="actions"><button class="main" disabled=${state.busy}>${title}</button>
      <button type="button" onClick=${() => box.current.close()}>Leave it</button></div>
    </form></dialog>`;
}
