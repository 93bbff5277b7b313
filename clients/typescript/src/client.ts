export interface ClientOptions {
  /** Default "default". */
  namespace?: string;
  /** A bearer token; sent by https, or to loopback. */
  token?: string;
  /** How long a call is repeated until it is answered; default 30,000. */
  timeoutMs?: number;
  /** With certificates of your own, for example. Default the global one. */
  fetch?: typeof fetch;
}

/** A task, by its id or by the key that its caller has chosen. */
export type Target = { id: string } | { key: string };

/** An instant, or a span from now. Neither: now. */
export interface When {
  at?: Date;
  delayMs?: number;
}

export interface NewTask extends When {
  /** A name of your own, unique in the namespace. */
  key?: string;
  /** What happens where the key is in use; default "reject". */
  onConflict?: "reject" | "keep" | "replace";
  /** By which a repeat is known for 24 h, of a task with `at`. Default a new one. */
  requestId?: string;
  labels?: Record<string, string>;
  contentType?: string;
  /** 0 to 10; 10 is first. */
  priority?: number;
  /** Not delivered at or after it. */
  expireAt?: Date;
  /** Default 20. */
  maxAttempts?: number;
  traceparent?: string;
}

/** A task on stable storage. With "KEPT" the key was in use, and the id is of the task that has it. */
export interface Scheduled {
  id: string;
  fireTime: Date;
  outcome: "STORED" | "KEPT";
}

/** With "CANCELLED" no delivery starts any more; the .proto files say what the others mean. */
export type CancelOutcome =
  | "CANCELLED" | "ALREADY_FIRED" | "IN_FLIGHT" | "ALREADY_CANCELLED" | "FINISHED" | "NOT_FOUND" | "PENDING";

/** A delivery in the hands of a worker. */
export interface Task {
  id: string;
  /** The same over all attempts: by it a repeat is told. */
  deliveryId: string;
  ackToken: string;
  queue: string;
  payload: Uint8Array;
  /** The payload as a text in UTF-8. */
  text: string;
  contentType: string;
  labels: Record<string, string>;
  key: string;
  priority: number;
  fireTime: Date;
  /** 1 for the first. */
  attempt: number;
  late: boolean;
  traceparent: string;
}

/**
 * What becomes of tasks. "release": not begun, and the attempt does not count. "throttled": of the queue, or of all that list
 * the limit, nothing starts for `afterMs`, and the attempt does not count.
 */
export interface Outcome {
  action: "ack" | "nack" | "reject" | "release" | "throttled";
  error?: string;
  /** Of "nack": when to try again; by the retry policy where it is left out. Of "throttled": for how long to wait. */
  afterMs?: number;
  /** Of "throttled": a limit that the queue lists. Default its own. */
  limit?: string;
}

/** A refusal of the server, or what kept a call from being answered. Without `outcomeUnknown` nothing was stored. */
export interface Renewed {
  lost: string[];
  interrupts: { ackTokens: string; reason: string }[];
}

export class TimerdError extends Error {
  override name = "TimerdError";
  outcomeUnknown = true;
  /** For programs, as in docs/use/errors.md. */
  reason = "";
  retryAfterMs = 0;
  onlyThisTry = false;

  /** `code`: "not_found", "already_exists", "unavailable", ... */
  constructor(readonly code: string, message: string, options?: ErrorOptions) {
    super(message, options);
  }

  /** Without a reason these codes say only that the answer got lost. */
  get isRetryable(): boolean {
    const lost = ["unknown", "internal", "aborted", "canceled", "deadline_exceeded"].includes(this.code);
    return this.code === "unavailable" || (this.code === "resource_exhausted" && this.retryAfterMs > 0) || (lost && !this.reason);
  }
}

type Message = Record<string, unknown>;

/** Makes the calls of callers and workers. */
export class Client {
  readonly #address: string;
  readonly #options: ClientOptions;

  /** `address`: such as "http://127.0.0.1:7401". Nothing is sent yet. */
  constructor(address: string, options: ClientOptions = {}) {
    const { protocol, hostname, host } = new URL(address);
    if (options.token && protocol !== "https:" && !/^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname)) {
      throw new TypeError(`A token is sent over TLS only: use https for ${host}.`);
    }
    this.#address = address.replace(/\/$/, "");
    this.#options = options;
  }

  /** Stores a task, and resolves when it is on stable storage. */
  async schedule(queue: string, payload: Uint8Array | string, task: NewTask = {}): Promise<Scheduled> {
    const { labels, contentType, priority, traceparent, expireAt, maxAttempts, onConflict } = task;
    const template: Message = { queue, labels, contentType, priority, traceparent, expireTime: expireAt, retry: { maxAttempts } };
    if (onConflict) template["onConflict"] = `CONFLICT_POLICY_${onConflict.toUpperCase()}`;
    const request = { template, payload: base64(payload), key: task.key, ...due(task, task.requestId) };
    const reply = await this.call("TimerService/Schedule", request);
    return { id: reply.taskId, fireTime: new Date(reply.fireTime), outcome: reply.outcome.replace("ITEM_OUTCOME_", "") };
  }

  async cancel(task: Target): Promise<CancelOutcome> {
    const reply = await this.call("TimerService/Cancel", { ...named(task), requestId: crypto.randomUUID() });
    return reply.outcome.replace("CANCEL_OUTCOME_", "");
  }

  /** Gives a task another fire time, and resolves to it. */
  async reschedule(task: Target, when: When): Promise<Date> {
    const reply = await this.call("TimerService/Reschedule", { ...named(task), ...due(when) });
    return new Date(reply.fireTime);
  }

  /** Waits until tasks of a queue are due, and resolves to up to `max`. Finish them within the lease. */
  async receive(queue: string, max: number, waitMs = 20_000, leaseMs = 30_000, signal?: AbortSignal): Promise<Task[]> {
    const request = { queue, maxTasks: max, wait: span(waitMs), lease: span(leaseMs) };
    const reply = await this.call("WorkService/Receive", request, waitMs, signal);
    return (reply.tasks ?? []).map(received);
  }

  /** Says what became of received tasks, and resolves when that is on stable storage. One that had ended is passed over. */
  async finish(tasks: readonly Task[], outcome: Outcome = { action: "ack" }): Promise<void> {
    const isThrottled = outcome.action === "throttled";
    const action = `SETTLE_ACTION_${isThrottled ? "NACK" : outcome.action.toUpperCase()}`;
    const delay = outcome.afterMs === undefined ? undefined : span(outcome.afterMs);
    const throttle = isThrottled ? { limit: outcome.limit, after: delay } : undefined;
    await this.call("WorkService/Finish", { ackTokens: tokens(tasks), action, delay, throttle, error: outcome.error });
  }

  /** Begins the leases anew, and resolves to the ack tokens of the tasks that are lost. */
  async extend(tasks: readonly Task[], leaseMs = 30_000): Promise<string[]> {
    return (await this.renew(tasks, leaseMs)).lost;
  }

  /** As `extend`, also with the tasks on which the work is for nothing, each by its ack token. */
  async renew(tasks: readonly Task[], leaseMs: number): Promise<Renewed> {
    const reply = await this.call("WorkService/Extend", { ackTokens: tokens(tasks), lease: span(leaseMs) });
    return { lost: reply.lost ?? [], interrupts: reply.interrupts ?? [] };
  }

  /**
   * Makes any other unary call of the .proto files, such as "TimerService/Get": its messages are written as JSON. The same
   * bytes are repeated until they are answered; the server may take `waitMs` longer.
   */
  async call(method: string, request: Message, waitMs = 0, signal?: AbortSignal): Promise<any> {
    const body = JSON.stringify({ namespace: this.#options.namespace, ...request });
    const deadlineMs = Date.now() + (this.#options.timeoutMs ?? 30_000) + waitMs;
    for (let pauseMs = 50, unknown = false; ; pauseMs = Math.min(2 * pauseMs, 2_000)) {
      const limit = AbortSignal.timeout(Math.max(1, Math.min(deadlineMs - Date.now(), 10_000 + waitMs)));
      try {
        return await this.#try(method, body, signal ? AbortSignal.any([signal, limit]) : limit);
      } catch (error) {
        if (!(error instanceof TimerdError)) throw error;
        unknown ||= error.outcomeUnknown;
        const againMs = Math.max(error.retryAfterMs, pauseMs * (0.5 + Math.random() / 2));
        if (!error.isRetryable || signal?.aborted || Date.now() + againMs >= deadlineMs) {
          error.outcomeUnknown ||= unknown && (error.onlyThisTry || error.isRetryable);
          throw error;
        }
        await sleep(againMs, signal);
      }
    }
  }

  async #try(method: string, body: string, signal: AbortSignal): Promise<unknown> {
    const headers: Record<string, string> = { "content-type": "application/json" };
    if (this.#options.token) headers["authorization"] = `Bearer ${this.#options.token}`;
    let response: Response, said: string;
    try {
      response = await (this.#options.fetch ?? fetch)(`${this.#address}/timerd.v1.${method}`, { method: "POST", headers, body, signal });
      said = await response.text();
    } catch (error) {
      throw unreached(error);
    }
    if (response.status !== 200) throw refusal(response, said);
    try {
      return JSON.parse(said);
    } catch (error) {
      // A proxy's page, say.
      throw unreached(error);
    }
  }
}

function unreached(error: unknown): TimerdError {
  const cause = error instanceof Error ? (error.cause as { code?: string; message?: string } | undefined) : undefined;
  const failed = new TimerdError("unavailable", `${cause?.message || error}`, { cause: error });
  failed.outcomeUnknown = !["ECONNREFUSED", "ENOTFOUND", "UND_ERR_CONNECT_TIMEOUT"].includes(cause?.code ?? "");
  return failed;
}

/** What the server said. Where it has no reason, a proxy on the way may have answered. */
function refusal(response: Response, said: string): TimerdError {
  let found: { code?: string; message?: string; details?: { debug?: Debug }[] } = {};
  try {
    found = JSON.parse(said);
  } catch {
    // It was not the server.
  }
  const other = response.status < 500 && response.status !== 429 ? "unimplemented" : "unknown";
  const failed = new TimerdError(found.code ?? other, found.message ?? `${response.status} ${response.statusText}`);
  failed.retryAfterMs = 1000 * (Number(response.headers.get("retry-after")) || 0);
  for (const { debug } of found.details ?? []) {
    if (debug?.domain !== "timerd") continue;
    failed.reason = debug.reason ?? "";
    failed.outcomeUnknown = false;
    failed.onlyThisTry = debug.metadata?.["only_this_try"] === "true";
  }
  return failed;
}

interface Debug {
  domain?: string;
  reason?: string;
  metadata?: Record<string, string>;
}

function named(task: Target): Message {
  return "key" in task ? { key: task.key } : { taskId: task.id };
}

/** When, and a name of the change by which the server knows its repeats. */
function due(when: When, requestId?: string): Message {
  const made = when.at && requestId ? {} : { requestTime: new Date() };
  const at = when.at ? { fireTime: when.at } : { delay: span(when.delayMs ?? 0) };
  return { ...made, ...at, requestId: requestId || crypto.randomUUID() };
}

function span(ms: number): string {
  return `${(ms / 1000).toFixed(6)}s`;
}

function tokens(tasks: readonly Task[]): string[] {
  return tasks.map((task) => task.ackToken);
}

function received(task: any): Task {
  const payload = Uint8Array.from(atob(task.payload ?? ""), (char) => char.charCodeAt(0));
  return {
    id: task.taskId, deliveryId: task.deliveryId, ackToken: task.ackToken, queue: task.queue, payload,
    get text() { return new TextDecoder().decode(payload); },
    contentType: task.contentType ?? "", labels: task.labels ?? {}, key: task.key ?? "", priority: task.priority ?? 0,
    fireTime: new Date(task.fireTime), attempt: task.attempt, late: task.late ?? false, traceparent: task.traceparent ?? "",
  };
}

function base64(payload: Uint8Array | string): string {
  const bytes = typeof payload === "string" ? new TextEncoder().encode(payload) : payload;
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}

/** Until then, or until the signal. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => (clearTimeout(timer), signal?.removeEventListener("abort", end), resolve());
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end, { once: true });
  });
}
