import { invalid } from "./errors.js";
import type { NewTask } from "./values.js";

const HIGHEST_PRIORITY = 10, LONGEST_ON_DEMAND_MS = 600_000, HIGHEST_MULTIPLIER = 100;
const SPANS = ["expireAfterMs", "softExpireAfterMs", "initialBackoffMs", "maxBackoffMs", "attemptTimeoutMs"] as const;
/** 0 is none here, as a task that is delivered says it. */
const SPANS_OR_NONE = ["delayMs", "stallTimeoutMs", "keepResultMs"] as const;
const INSTANTS = ["at", "expireAt", "softExpireAt"] as const;

/** What no server takes, by the names of the options, before anything is sent. */
export function check(task: NewTask): void {
  for (const name of SPANS) positive(name, task[name]);
  for (const name of SPANS_OR_NONE) if (task[name] !== 0) positive(name, task[name]);
  for (const name of INSTANTS) {
    const at = task[name];
    if (at !== undefined && Number.isNaN(new Date(at).getTime())) throw invalid(`${name} is ${at}: give a valid Date, or leave it out.`);
  }
  const { priority = 0, maxAttempts = 0, multiplier = 0, jitter = 0, onDemand = false, expireAfterMs = Infinity } = task;
  if (!(Number.isInteger(priority) && priority >= 0 && priority <= HIGHEST_PRIORITY)) {
    throw invalid(`priority is ${priority}: give a whole number from 0 to ${HIGHEST_PRIORITY}.`);
  }
  if (!(Number.isInteger(maxAttempts) && maxAttempts >= 0)) {
    throw invalid(`maxAttempts is ${maxAttempts}: give a whole number, 1 or more, or leave it out.`);
  }
  if (multiplier !== 0 && !(multiplier >= 1 && multiplier <= HIGHEST_MULTIPLIER)) {
    throw invalid(`multiplier is ${multiplier}: give 1 to ${HIGHEST_MULTIPLIER}, or leave it out.`);
  }
  if (!(jitter >= 0 && jitter <= 1)) throw invalid(`jitter is ${jitter}: give 0 (none) to 1, or leave it out.`);
  // A text such as "no" would be a yes.
  if (typeof onDemand !== "boolean") throw invalid(`onDemand is ${JSON.stringify(onDemand)}: give true or false.`);
  if (onDemand && expireAfterMs > LONGEST_ON_DEMAND_MS) {
    throw invalid(
      "A task on demand goes before those that wait in line, so it may be worth something for 10 minutes at most: give an " +
        "expireAfterMs (ask: a timeoutMs) of up to 600,000, or leave onDemand out.",
    );
  }
}

/** Of what is given. */
export function positive(name: string, ms?: number): void {
  if (ms === undefined || (ms > 0 && Number.isFinite(ms))) return;
  throw invalid(`${name} is ${ms}: give milliseconds, more than 0, or leave it out.`);
}
