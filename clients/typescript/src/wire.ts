/** Values as protobuf's JSON says them. */
import { check } from "./checks.js";
import type { EndedTask, NewTask, Progress, Target, Task, TaskInfo, When } from "./values.js";

/** That of a task that was made by the end of another one. */
const ENDED_CONTENT_TYPE = "application/vnd.timerd.ended+json";

export type Message = Record<string, unknown>;

/** What is undefined is not sent: an older server refuses what it does not know. */
export function template(queue: string, task: NewTask): Message {
  check(task);
  const { labels, contentType, priority, traceparent, orderingKey, limitKey, onConflict, onEnd, maxAttempts, multiplier } = task;
  const retry = {
    maxAttempts, initialBackoff: maybe(task.initialBackoffMs), multiplier, maxBackoff: maybe(task.maxBackoffMs),
    // There 0 is not set, and less is none.
    jitter: task.jitter === 0 ? -1 : task.jitter, attemptTimeout: maybe(task.attemptTimeoutMs),
  };
  return {
    queue, labels, contentType, priority, traceparent, orderingKey, limitKey, onEnd, retry, onDemand: task.onDemand || undefined,
    onConflict: onConflict && `CONFLICT_POLICY_${onConflict.toUpperCase()}`,
    expireTime: task.expireAt, expireAfter: maybe(task.expireAfterMs), softExpireTime: task.softExpireAt,
    softExpireAfter: maybe(task.softExpireAfterMs), stallTimeout: maybe(task.stallTimeoutMs), keepResult: maybe(task.keepResultMs),
  };
}

function maybe(ms?: number): string | undefined {
  return ms ? span(ms) : undefined;
}

export function result(tasks: readonly Task[], value?: Uint8Array | string): Message {
  const keepMs = Math.max(0, ...tasks.map((task) => task.keepResultMs));
  return value === undefined || !keepMs ? {} : { result: { value: base64(value) }, keepResult: span(keepMs) };
}

export function report({ ackToken, said }: Task): Message[] {
  if (!said) return [];
  const progress = { fraction: said.fraction, cursor: base64(said.cursor) };
  return [{ ackToken, progress, ageMs: Math.round(performance.now() - said.atMs) }];
}

export function named(task: Target): Message {
  return "key" in task ? { key: task.key } : { taskId: task.id };
}

/** When, and a name of the change by which the server knows its repeats. */
export function due(when: When, requestId?: string): Message {
  const made = requestId ? {} : { requestTime: new Date() };
  const at = when.at ? { fireTime: when.at } : { delay: span(when.delayMs ?? 0) };
  return { ...made, ...at, requestId: requestId || crypto.randomUUID() };
}

export function span(ms: number): string {
  return `${(ms / 1000).toFixed(6)}s`;
}

export function tokens(tasks: readonly Task[]): string[] {
  return tasks.map((task) => task.ackToken);
}

export function received(task: any): Task {
  const payload = bytes(task.payload);
  return {
    id: task.taskId, deliveryId: task.deliveryId, ackToken: task.ackToken, queue: task.queue, payload,
    get text() { return new TextDecoder().decode(payload); },
    get ended() { return task.contentType === ENDED_CONTENT_TYPE ? ended(this.text) : undefined; },
    contentType: task.contentType ?? "", labels: task.labels ?? {}, key: task.key ?? "", priority: task.priority ?? 0,
    fireTime: new Date(task.fireTime), deadline: date(task.deadline), softDeadline: date(task.softDeadline),
    attempt: task.attempt, late: task.late ?? false, traceparent: task.traceparent ?? "",
    orderingKey: task.orderingKey ?? "", previousProgress: progress(task.previousProgress),
    attemptTimeoutMs: milliseconds(task.attemptTimeout), stallTimeoutMs: milliseconds(task.stallTimeout),
    keepResultMs: milliseconds(task.keepResult),
    progress(fraction, cursor = "") { this.said = { fraction, cursor, atMs: performance.now() }; },
  };
}

const OPEN = ["PENDING", "IN_FLIGHT", "RETRYING", "UNSPECIFIED"];

export function shown(task: any): TaskInfo {
  const state = task.state.replace("TASK_STATE_", "");
  return {
    id: task.taskId, namespace: task.namespace, queue: task.queue ?? "", key: task.key ?? "", state, isOver: !OPEN.includes(state),
    fireTime: new Date(task.fireTime), dueTime: new Date(task.dueTime ?? task.fireTime), payload: bytes(task.payload),
    contentType: task.contentType ?? "", labels: task.labels ?? {}, priority: task.priority ?? 0, onDemand: task.onDemand ?? false,
    orderingKey: task.orderingKey ?? "", limitKey: task.limitKey ?? "", expireTime: date(task.expireTime),
    softExpireTime: date(task.softExpireTime), attempt: task.attempt ?? 0, lastError: task.lastError ?? "",
    progress: progress(task.progress), result: task.result && bytes(task.result.value), traceparent: task.traceparent ?? "",
    onEnd: task.onEnd ?? "", isCancelling: task.isCancelling ?? false,
  };
}

function progress(said?: { fraction?: number; cursor?: string }): Progress | undefined {
  return said && { fraction: said.fraction ?? 0, cursor: new TextDecoder().decode(bytes(said.cursor)) };
}

function date(said?: string): Date | undefined {
  return said === undefined ? undefined : new Date(said);
}

function ended(text: string): EndedTask {
  const { task_id: id, delivery_id: deliveryId, ordering_key: orderingKey, fire_time, end_time, last_error: lastError, ...same } =
    JSON.parse(text);
  return { ...same, id, deliveryId, orderingKey, fireTime: new Date(fire_time), endTime: new Date(end_time), lastError };
}

/** Of a span as JSON says it: "0.250s". */
function milliseconds(span?: string): number {
  return span ? Math.round(1000 * Number.parseFloat(span)) : 0;
}

export function bytes(base64?: string): Uint8Array {
  return Uint8Array.from(atob(base64 ?? ""), (char) => char.charCodeAt(0));
}

export function base64(payload: Uint8Array | string): string {
  const bytes = typeof payload === "string" ? new TextEncoder().encode(payload) : payload;
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}
