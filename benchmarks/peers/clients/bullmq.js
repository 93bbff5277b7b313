// BullMQ: the same commands as talk.py, in the language that BullMQ is made for.
'use strict';
const readline = require('node:readline');
const { performance } = require('node:perf_hooks');
const { Queue, Worker } = require('bullmq');

const LOOK_EVERY_MS = 20;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)));
const hex = (number) => number.toString(16).padStart(16, '0');
const nowMs = () => performance.timeOrigin + performance.now();

let queue, connection, options, seed;
let stored = [];
let entered = [];

// Payloads are as random as those of the others: they must not compress better.
function made(count, fromMs, spanMs, payloadBytes) {
  return Array.from({ length: count }, (_, number) => {
    const dueMs = fromMs + Math.floor(Math.random() * spanMs);
    const filler = require('node:crypto').randomBytes((payloadBytes - 32) / 2).toString('hex');
    return { id: `${seed}-${number}`, dueMs, payload: hex(number) + hex(dueMs) + filler };
  });
}

// Delays are whole milliseconds, counted from the time stamp that the task carries. Done tasks are not kept.
function job(task) {
  const timestamp = Date.now();
  const delay = Math.max(0, task.dueMs - timestamp);
  return { name: 't', data: task.payload, opts: { delay, timestamp, jobId: task.id, removeOnComplete: true } };
}

async function oneByOne(startMs, seconds, given, call) {
  const waits = [];
  await sleep(startMs - Date.now());
  const end = performance.now() + seconds * 1e3;
  for (const one of given) {
    const begun = performance.now();
    if (begun > end) break;
    await call(one);
    waits.push(performance.now() - begun);
  }
  return { ended_ms: Date.now(), waits_ms: waits };
}

function percentile(ordered, share) {
  return ordered[Math.max(0, Math.ceil(ordered.length * share) - 1)];
}

const CURVE = [...Array.from({ length: 99 }, (_, n) => (n + 1) / 100), 0.995, 0.999, 0.9995, 0.9999, 1];

const verbs = {
  async start(given) {
    const [host, port] = given.target.split(':');
    connection = { host, port: Number(port), maxRetriesPerRequest: null };
    ({ options, seed } = given);
    queue = new Queue('timers', { connection });
    await queue.waitUntilReady();
    return {};
  },
  async schedule({ count, from_ms, span_ms, payload_bytes, limit_s = 1e9 }) {
    const tasks = made(count, from_ms, span_ms, payload_bytes);
    const size = options.batch ?? 1000;
    stored = [];
    const begun = performance.now();
    let next = 0;
    const writer = async () => {
      while (next < count && performance.now() - begun <= limit_s * 1e3) {
        const part = tasks.slice(next, next += size);
        await queue.addBulk(part.map(job));
        for (const task of part) stored.push(task.id);
      }
    };
    await Promise.all(Array.from({ length: options.writers ?? 1 }, writer));
    return { stored: stored.length, seconds: (performance.now() - begun) / 1e3, ended_ms: Date.now() };
  },
  async single({ start_ms, seconds, from_ms, span_ms, payload_bytes }) {
    const tasks = made(Math.round(seconds * 10000) + 100, from_ms, span_ms, payload_bytes);
    const ended = await oneByOne(start_ms, seconds, tasks, (task) => {
      const { name, data, opts } = job(task);
      return queue.add(name, data, opts);
    });
    return { ...ended, stored: ended.waits_ms.length };
  },
  // What is due counts as well: here all of it is kept until a worker takes it.
  async count() {
    const counts = await queue.getJobCounts('delayed', 'waiting', 'active', 'prioritized', 'paused');
    return { count: Object.values(counts).reduce((sum, one) => sum + one, 0) };
  },
  async cancel_singles({ start_ms, seconds }) {
    let cancelled = 0, asked = 0;
    const ended = await oneByOne(start_ms, seconds, stored, async (id) => {
      asked += 1;
      cancelled += await queue.remove(id);
    });
    return { ...ended, cancelled, asked };
  },
  async cancel() {
    const size = 100, begun = performance.now();
    let cancelled = 0;
    for (let first = 0; first < stored.length; first += size) {
      const done = await Promise.all(stored.slice(first, first + size).map((id) => queue.remove(id)));
      cancelled += done.reduce((sum, one) => sum + one, 0);
    }
    return { cancelled, asked: stored.length, seconds: (performance.now() - begun) / 1e3 };
  },
  async receive() {
    for (let worker = 0; worker < (options.consumers ?? 1); worker += 1) {
      const one = new Worker('timers', async (task) => { entered.push([nowMs(), task.data]); },
        { connection, concurrency: options.fetch ?? 100 });
      await one.waitUntilReady();
    }
    return {};
  },
  async collect({ count, patience_s }) {
    let seen = -1, heard = performance.now();
    while (entered.length < count && performance.now() < heard + patience_s * 1e3) {
      if (entered.length !== seen) { seen = entered.length; heard = performance.now(); }
      await sleep(LOOK_EVERY_MS);
    }
    const all = entered;
    entered = [];
    const late = all.map(([at, data]) => at - parseInt(data.slice(16, 32), 16)).sort((a, b) => a - b);
    return {
      received: late.length,
      distinct: new Set(all.map(([, data]) => data.slice(0, 16))).size,
      early: late.filter((one) => one < 0).length,
      first_ms: late[0] ?? 0,
      p50_ms: percentile(late, 0.5) ?? 0, p99_ms: percentile(late, 0.99) ?? 0,
      p999_ms: percentile(late, 0.999) ?? 0, max_ms: percentile(late, 1) ?? 0,
      curve: late.length ? CURVE.map((share) => Math.round(percentile(late, share) * 1e3) / 1e3) : [],
    };
  },
};

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { do: verb, ...given } = JSON.parse(line);
    console.log(JSON.stringify(await verbs[verb](given)));
  }
  process.exit(0);
}

main();
