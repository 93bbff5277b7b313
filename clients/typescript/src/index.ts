/**
 * Schedules tasks with a timerd server, and works on them when they are due.
 *
 * It speaks JSON to the port of `timerd serve --http` (docs/use/http.md) by `fetch`, and needs no other package.
 */
export { Client, TimerdError } from "./client.js";
export type { CancelOutcome, ClientOptions, NewTask, Outcome, Renewed, Scheduled, Target, Task, When } from "./client.js";
export { Interrupted, Reject, Retry, Throttled, Worker } from "./worker.js";
export type { Handler, WorkerOptions } from "./worker.js";
