// How figures and times are written.
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const WHOLE = new Intl.NumberFormat("en");

/** int64 comes as text. */
export const number = (value) => Number(value ?? 0);
export const short = (value) => SHORT.format(number(value));
export const whole = (value) => WHOLE.format(number(value));

/** "1 task", "2 dead letters": what each of them is stands in the singular. */
export const counted = (value, noun) => `${whole(value)} ${noun}${number(value) === 1 ? "" : "s"}`;

export function span(ms) {
  const size = Math.abs(ms);
  if (size < 1000) return `${Math.round(size)} ms`;
  if (size < 60_000) return `${(size / 1000).toFixed(size < 10_000 ? 1 : 0)} s`;
  if (size < 3_600_000) return `${Math.floor(size / 60_000)} min`;
  if (size < 172_800_000) return `${(size / 3_600_000).toFixed(1)} h`;
  return counted(Math.floor(size / 86_400_000), "day");
}

export function relative(time, now = Date.now()) {
  if (!time) return "";
  const ms = new Date(time).getTime() - now;
  return ms >= 0 ? `in ${span(ms)}` : `${span(ms)} ago`;
}

export function clock(time) {
  return new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
}

export function instant(time) {
  return time ? new Date(time).toISOString().replace("T", " ").replace(/\.000Z$|Z$/, "") + " UTC" : "";
}

export const bytes = (value) => (number(value) < 1 << 20 ? `${Math.round(number(value) / 1024)} KiB` : `${Math.round(number(value) / 1048576)} MiB`);

/** TASK_STATE_IN_FLIGHT -> IN_FLIGHT. */
export const state = (name, kind) => (name || "").replace(`${kind}_STATE_`, "");

/** QUEUE_MODE_PAUSED -> PAUSED; what has no rules is RUNNING. */
export const mode = (name) => (name || "").replace("QUEUE_MODE_", "").replace("UNSPECIFIED", "") || "RUNNING";

/** The text of base64 bytes where they are text, else their hex digits. */
export function payload(base64) {
  const raw = Uint8Array.from(atob(base64 || ""), (letter) => letter.charCodeAt(0));
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(raw);
  } catch {
    return Array.from(raw.slice(0, 4096), (byte) => byte.toString(16).padStart(2, "0")).join(" ");
  }
}

/** Below which bound a share of what was counted lies; null where nothing was. */
export function quantile(counts, bounds, share) {
  const all = counts.reduce((sum, each) => sum + each, 0);
  if (!all) return null;
  let seen = 0;
  for (let place = 0; place < counts.length; place += 1) {
    seen += counts[place];
    if (seen >= share * all) return bounds[Math.min(place, bounds.length - 1)];
  }
  return bounds[bounds.length - 1];
}
