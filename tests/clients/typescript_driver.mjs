// Makes the calls of the client in TypeScript that tests/clients asks for: a line of JSON each, on stdin and stdout.
import { createInterface } from "node:readline";
import { Client, Reject, Retry, Throttled, TimerdError, Unanswered, Worker } from "../../clients/typescript/dist/index.js";

const [address, options] = process.argv.slice(2);
const { namespace, token, timeoutMs } = JSON.parse(options);
const client = new Client(address, { namespace, token, timeoutMs: timeoutMs || undefined });
const ends = new Map(); // By payload: how its handler ends.
let stop;

const say = (said) => console.log(JSON.stringify(said));
const base64 = (bytes) => Buffer.from(bytes).toString("base64");

class Ending {
  #told = [];
  #waiting = [];

  tell(outcome) {
    this.#waiting.length ? this.#waiting.shift()(outcome) : this.#told.push(outcome);
  }

  next() {
    return new Promise((resolve) => (this.#told.length ? resolve(this.#told.shift()) : this.#waiting.push(resolve)));
  }
}

function ending(payload) {
  if (!ends.has(payload)) ends.set(payload, new Ending());
  return ends.get(payload);
}

async function handle(task, signal) {
  const payload = base64(task.payload);
  const { ackToken, text, previousProgress, ended, ...seen } = task;
  const previous = previousProgress && [previousProgress.fraction, previousProgress.cursor];
  say({ event: "begun", ...seen, payload, previous: previous ?? null, ended: ended ?? null });
  const lost = new Promise((resolve) => signal.addEventListener("abort", () => resolve("lost")));
  let told;
  while ((told = await Promise.race([ending(payload).next(), lost])).outcome === "progress") {
    task.progress(told.fraction, told.cursor);
  }
  if (told.outcome === "deaf") await new Promise(() => {});
  if (told === "lost") {
    say({ event: "lost", payload, attempt: task.attempt, reason: signal.reason.why });
    throw signal.reason;
  }
  if (told.outcome === "fail") throw new Error(told.error);
  if (told.outcome === "retry") throw new Retry(told.afterMs, told.error);
  if (told.outcome === "throttled") throw new Throttled(told.afterMs, told.byKey ? { byKey: true } : told.limit, told.error);
  if (told.outcome === "reject") throw new Reject(told.error);
  return told.result;
}

function newTask(asked) {
  const { at, expiresMs, softExpiresMs, stallMs, ...same } = asked;
  return {
    ...same, at: at && new Date(at), expireAt: expiresMs && new Date(expiresMs), softExpireAt: softExpiresMs && new Date(softExpiresMs),
    stallTimeoutMs: stallMs,
  };
}

function shown({ payload, progress, result, ...same }) {
  return {
    ...same, payload: base64(payload), progress: progress && [progress.fraction, progress.cursor],
    result: result && Buffer.from(result).toString(),
  };
}

async function make(asked) {
  const target = asked.taskId ? { id: asked.taskId } : { key: asked.key };
  const when = { at: asked.at && new Date(asked.at), delayMs: asked.delayMs };
  switch (asked.do) {
    case "schedule":
      return client.schedule(asked.queue, Buffer.from(asked.payload, "base64"), newTask(asked));
    case "cancel":
      return client.cancel(target);
    case "reschedule":
      return client.reschedule(target, when);
    case "get":
      return client.get(target).then(shown);
    case "wait":
      return client.wait(target, { timeoutMs: asked.timeoutMs || undefined }).then(shown);
    case "call":
      return client.call(asked.method, asked.request);
    case "work": {
      const how = { concurrency: asked.concurrency, leaseMs: asked.leaseMs, stallTimeoutMs: asked.stallMs };
      const handlers = Object.fromEntries((asked.queues ?? []).map((queue) => [queue, handle]));
      const worker = asked.queues ? Worker.pool(client, handlers, how) : new Worker(client, asked.queue, handle, how);
      stop = () => worker.stop();
      return worker.run();
    }
    case "ask": {
      const asking = new AbortController();
      stop = () => asking.abort();
      return client
        .ask(asked.queue, Buffer.from(asked.payload, "base64"), { ...newTask(asked), signal: asking.signal })
        .then((result) => ({ result: Buffer.from(result ?? []).toString() }))
        .catch((error) => {
          if (!(error instanceof Unanswered)) throw error;
          return { state: error.state, id: error.taskId, lastError: error.lastError };
        });
    }
    case "stop":
      return stop();
    case "end":
      return ending(asked.payload).tell(asked);
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  make(asked).then(
    (result) => say({ id: asked.id, result: result ?? null }),
    (error) => {
      const { code = "", reason, outcomeUnknown } = error instanceof TimerdError ? error : {};
      say({ id: asked.id, error: { code, message: error.message, reason, outcomeUnknown } });
    },
  );
}
process.exit(0);
