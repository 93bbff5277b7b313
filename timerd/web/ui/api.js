// The public API, called as JSON over HTTP: POST /timerd.v1.<Service>/<Method>.
import { useEffect, useRef, useState } from "./vendor/htm-preact.js";

// The page stands at <base>/ui/.
const BASE = new URL("../", location.href.split("#")[0]);
const TOKEN = "timerd-token";

export class CallError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** Kept for this tab only. */
export function setToken(text) {
  if (text) sessionStorage.setItem(TOKEN, text);
  else sessionStorage.removeItem(TOKEN);
}

/** The reply of a method, or a CallError with the server's own sentence. */
export async function call(service, method, request = {}) {
  const headers = { "content-type": "application/json" };
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.authorization = `Bearer ${token}`;
  let reply;
  try {
    reply = await fetch(new URL(`timerd.v1.${service}/${method}`, BASE), { method: "POST", headers, body: JSON.stringify(request) });
  } catch {
    throw new CallError("unavailable", "The server does not answer. This page goes on asking.");
  }
  const text = await reply.text();
  let body = {};
  try {
    body = JSON.parse(text || "{}");
  } catch {
    throw new CallError("unknown", `What answers at ${BASE} is no timerd server (HTTP ${reply.status}).`);
  }
  if (!reply.ok) throw new CallError(body.code || "unknown", body.message || `HTTP ${reply.status}`);
  return body;
}

/** A change has a name, so that its repeat changes nothing more. */
export function change(service, method, request) {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const requestId = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return call(service, method, { requestId, requestTime: new Date().toISOString(), ...request });
}

/** Lines of JSON as they come, until their end or `signal`; a CallError where the server says why there are no more. */
export async function follow(path, onLine, signal) {
  const token = sessionStorage.getItem(TOKEN);
  let rest = "";
  const read = (text) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop();
    for (const line of lines.filter(Boolean)) {
      const said = JSON.parse(line);
      if (said.code) throw new CallError(said.code, said.message);
      onLine(said);
    }
  };
  let reply;
  try {
    reply = await fetch(new URL(path, BASE), { headers: token ? { authorization: `Bearer ${token}` } : {}, signal });
    if (reply.ok) {
      const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let part = await reader.read(); !part.done; part = await reader.read()) read(part.value);
      return;
    }
  } catch (error) {
    if (error instanceof CallError) throw error;
    throw new CallError("unavailable", "The server does not answer. This page goes on asking.");
  }
  const body = await reply.json().catch(() => ({}));
  throw new CallError(body.code || "unknown", body.message || `HTTP ${reply.status}`);
}

export async function readJson(path) {
  const reply = await fetch(new URL(path, BASE));
  return reply.json();
}

/** Asks at once and every `everyMs` while the page is seen; [what came last, its error, ask again]. */
export function usePoll(ask, everyMs, inputs) {
  const [state, setState] = useState([null, null]);
  const latest = useRef(0);
  const look = async () => {
    const mine = ++latest.current;
    try {
      const found = await ask();
      if (mine === latest.current) setState([found, null]);
    } catch (error) {
      if (mine === latest.current) setState(([found]) => [found, error]);
    }
  };
  useEffect(() => {
    setState([null, null]);
    look();
    const timer = everyMs ? setInterval(() => document.hidden || look(), everyMs) : 0;
    return () => {
      latest.current += 1;
      clearInterval(timer);
    };
  }, inputs);
  return [state[0], state[1], look];
}
