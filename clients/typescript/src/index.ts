/**
 * Schedules tasks with a timerd server, and works on them when they are due.
 *
 * It speaks JSON to the port of `timerd serve --http` (docs/use/http.md) by `fetch`, and needs no other package.
 */
export { Client } from "./client.js";
export { TimerdError, Unanswered } from "./errors.js";
export type {
  Asking, CancelOutcome, ClientOptions, EndedTask, NewTask, Outcome, Progress, Renewed, Scheduled, Target, Task, TaskInfo,
  Waiting, When,
} from "./values.js";
export { Interrupted, Reject, Retry, Throttled, Worker } from "./worker.js";
export type { Handler, WorkerOptions } from "./worker.js";
