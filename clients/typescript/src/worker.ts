import { type Client, sleep } from "./client.js";
import { TimerdError } from "./errors.js";
import type { Outcome, Task } from "./values.js";

/** Throw it in a handler: the task comes again after a span of its own. */
export class Retry extends Error {
  override name = "Retry";
  constructor(readonly afterMs: number, message = "") {
    super(message);
  }
}

/** Throw it in a handler: the task becomes a dead letter. */
export class Reject extends Error {
  override name = "Reject";
}

/**
 * Throw it in a handler that was told to wait, as by HTTP 429: nothing of the queue, or of all that list the limit, starts for
 * a span, an hour at most, and no attempt is used up. With `{ byKey: true }` it is what has the limit key of the task.
 */
export class Throttled extends Error {
  override name = "Throttled";
  readonly limit: string;
  readonly byKey: boolean;
  constructor(readonly afterMs: number, held: string | { byKey: true } = "", message = "") {
    super(message);
    this.limit = typeof held === "string" ? held : "";
    this.byKey = typeof held !== "string";
  }
}

/** Why the signal of a handler was aborted: its `reason`. */
export class Interrupted extends Error {
  override name = "Interrupted";
  constructor(readonly why: "lost" | "cancelled" | "expired" | "stalled") {
    super(`the task is ${why}`);
  }
}

/** As the server says them; others are of a later one. */
const REASONS: Record<string, "cancelled" | "expired"> = {
  INTERRUPT_REASON_CANCELLED: "cancelled",
  INTERRUPT_REASON_EXPIRED: "expired",
};

/**
 * Works on a task. What it throws lets the task come again by the retry policy, unless it is one of the three above. The
 * signal is aborted, with an Interrupted as its reason, when the work is for nothing: the task is lost to another worker, cancelled,
 * expired, or its handler has stalled. How the handler ends counts as ever, unless it has stalled; what it throws ends a cancelled
 * task as cancelled. A text or bytes that it returns are the result, for who waits for it (`ask`).
 */
export type Handler = (task: Task, signal: AbortSignal) => unknown;

export interface WorkerOptions {
  /** Handlers at a time, up to 1,000, default 10; more tasks are never in hand. */
  concurrency?: number;
  /** After the end of this process others get its tasks so late; default 30,000. */
  leaseMs?: number;
  /** For how long a handler may say no progress. Of this and the task's the shorter one counts. Default for any time. */
  stallTimeoutMs?: number;
  /** What did not go well and is tried again. Default console.warn. */
  onTrouble?: (what: string, error: unknown) => void;
}

/** A task in hand. What becomes of it is said once, by who sets `isEnded`. Times are those of `performance`. */
interface Hold {
  task: Task;
  lost: AbortController;
  begunMs: number;
  /** When the handler has said what the server has heard. */
  toldMs: number;
  /** When the server is asked whether its time is over; Infinity: never, or it was. */
  asksAtMs: number;
  isEnded: boolean;
  /** Until it is told that the handler has stalled. */
  telling?: Promise<void>;
}

const LOOK_MS = 500;
/** So long before the server's first chance to miss a word it is told: it waits two seconds longer than the worker. */
const AHEAD_MS = 2 * LOOK_MS;
/** The server ends an attempt two seconds after its time is over: then it tells why. */
const OVERDUE_MS = 2_000 + LOOK_MS;

/** Calls a handler for each task of a queue that is due, and renews leases meanwhile, through restarts of the server. */
export class Worker {
  readonly #stopping = new AbortController();
  readonly #inHand = new Map<string, Hold>();
  readonly #most: number;
  readonly #leaseMs: number;
  readonly #stallMs: number;
  readonly #trouble: (what: string, error: unknown) => void;
  #taken = 0;
  #free: () => void = () => {};
  #done: Task[] = [];
  #acknowledging = false;

  constructor(
    readonly client: Client, readonly queue: string | readonly string[], readonly handler: Handler, options: WorkerOptions = {},
  ) {
    this.#most = Math.min(options.concurrency ?? 10, 1_000);
    this.#leaseMs = options.leaseMs ?? 30_000;
    this.#stallMs = options.stallTimeoutMs || Infinity;
    this.#trouble = options.onTrouble ?? ((what, error) => console.warn(`timerd: ${what}: ${error}`));
  }

  /**
   * One of several queues, each with its handler: never more than `concurrency` of them run, of all together. A place that is free
   * gets what is first among all queues, by priority, by how long it has waited, and by how few places there are for it.
   */
  static pool(client: Client, handlers: Readonly<Record<string, Handler>>, options: WorkerOptions = {}): Worker {
    return new Worker(client, Object.keys(handlers), (task, signal) => handlers[task.queue]!(task, signal), options);
  }

  /** Until `stop`; then handlers that run are waited for. Rejects only where trying again would not help. */
  async run(): Promise<void> {
    const renewing = setInterval(() => void this.#renew(), this.#leaseMs / 3);
    const watching = setInterval(() => this.#watch(), LOOK_MS);
    try {
      while (!this.#stopping.signal.aborted) {
        await this.#receive(this.#most - this.#taken);
        await this.#until(() => this.#taken < this.#most);
      }
    } finally {
      await this.#until(() => this.#taken === 0);
      clearInterval(renewing);
      clearInterval(watching);
    }
  }

  /** Takes no more tasks. */
  stop(): void {
    this.#stopping.abort();
  }

  async #receive(max: number): Promise<void> {
    try {
      for (const task of await this.client.receive(this.queue, max, 20_000, this.#leaseMs, this.#stopping.signal)) {
        const nowMs = performance.now();
        const hold: Hold = { task, lost: new AbortController(), begunMs: nowMs, toldMs: nowMs, asksAtMs: asksAt(task, nowMs), isEnded: false };
        this.#inHand.set(task.ackToken, hold);
        this.#taken += 1;
        void this.#work(hold);
      }
    } catch (error) {
      if (this.#stopping.signal.aborted) return;
      if (!(error instanceof TimerdError && error.isRetryable)) throw error;
      this.#trouble("no tasks are received", error);
      await sleep(1_000, this.#stopping.signal);
    }
  }

  async #work(hold: Hold): Promise<void> {
    const { task } = hold;
    let outcome: Outcome;
    try {
      const said = await this.handler(task, hold.lost.signal);
      const isResult = task.keepResultMs > 0 && (typeof said === "string" || said instanceof Uint8Array);
      outcome = isResult ? { action: "ack", result: said } : { action: "ack" };
    } catch (error) {
      outcome = outcomeOf(error);
    }
    const hasStalled = hold.isEnded;
    hold.isEnded = true;
    if (hasStalled) {
      await hold.telling;
      return this.#freed(1);
    }
    if (outcome.action === "ack" && outcome.result === undefined) {
      this.#done.push(task);
      return this.#acknowledge();
    }
    await this.#end(hold, outcome);
    this.#freed(1);
  }

  /** A failure hands what the attempt has said on to the next one. */
  async #end(hold: Hold, outcome: Outcome): Promise<void> {
    if (outcome.action === "nack" && (hold.task.said?.atMs ?? 0) > hold.toldMs) await this.#keep([hold.task]);
    await this.#finish([hold.task], outcome);
  }

  /** Tells together what has gathered while the call before was on its way. */
  async #acknowledge(): Promise<void> {
    if (this.#acknowledging) return;
    this.#acknowledging = true;
    while (this.#done.length) {
      const tasks = this.#done.splice(0);
      await this.#finish(tasks, { action: "ack" });
      this.#freed(tasks.length);
    }
    this.#acknowledging = false;
  }

  /** A task whose outcome cannot be told comes again. */
  async #finish(tasks: Task[], outcome: Outcome): Promise<void> {
    await this.client.finish(tasks, outcome).catch((error) => this.#trouble("tasks are not finished, and come again", error));
    for (const task of tasks) this.#inHand.delete(task.ackToken);
  }

  #freed(places: number): void {
    this.#taken -= places;
    this.#free();
  }

  /** Tells that the tasks in hand are still worked on. */
  async #renew(): Promise<void> {
    if (this.#inHand.size) await this.#keep([...this.#inHand.values()].map((hold) => hold.task));
  }

  /** Tells of some, and aborts the handlers of those that are interrupted. */
  async #keep(tasks: Task[]): Promise<void> {
    try {
      const { lost, interrupts } = await this.client.renew(tasks, this.#leaseMs);
      for (const token of lost) this.#interrupt(token, this.#hasExpired(token) ? "expired" : "lost");
      for (const { ackTokens, reason } of interrupts) {
        const why = REASONS[reason];
        if (why) this.#interrupt(ackTokens, why);
      }
    } catch (error) {
      this.#trouble("leases are not renewed", error);
    }
  }

  /** It is lost as well. */
  #hasExpired(token: string): boolean {
    const deadline = this.#inHand.get(token)?.task.deadline;
    return deadline !== undefined && deadline.getTime() <= Date.now();
  }

  #interrupt(token: string, why: Interrupted["why"]): void {
    this.#inHand.get(token)?.lost.abort(new Interrupted(why));
  }

  /**
   * Fails the attempts whose handlers have said nothing for too long, and tells of those that the server would miss next, and of those
   * whose time is over.
   */
  #watch(): void {
    const nowMs = performance.now(), due: Task[] = [];
    for (const hold of this.#inHand.values()) {
      const { task, begunMs, toldMs } = hold;
      const heardMs = Math.max(begunMs, task.said?.atMs ?? 0), known = task.stallTimeoutMs || Infinity;
      const stallMs = Math.min(known, this.#stallMs);
      if (hold.isEnded) continue;
      if (nowMs >= hold.asksAtMs) {
        hold.asksAtMs = Infinity;
        due.push(task);
      } else if (nowMs - heardMs >= stallMs) {
        hold.isEnded = true;
        hold.lost.abort(new Interrupted("stalled"));
        hold.telling = this.#end(hold, { action: "nack", error: `Stalled: the handler said no progress for ${stallMs / 1000} s` });
      } else if (heardMs > toldMs && nowMs + AHEAD_MS - toldMs >= known) {
        hold.toldMs = heardMs;
        due.push(task);
      }
    }
    if (due.length) void this.#keep(due);
  }

  async #until(fact: () => boolean): Promise<void> {
    while (!fact()) await new Promise<void>((resolve) => (this.#free = resolve));
  }
}

function asksAt({ attemptTimeoutMs, deadline }: Task, nowMs: number): number {
  const leftMs = deadline ? deadline.getTime() - Date.now() : Infinity;
  return nowMs + OVERDUE_MS + Math.min(leftMs, attemptTimeoutMs || Infinity);
}

function outcomeOf(error: unknown): Outcome {
  const said = error instanceof Error ? error.message || error.name : String(error);
  if (error instanceof Reject) return { action: "reject", error: said };
  if (error instanceof Throttled) return { action: "throttled", error: said, afterMs: error.afterMs, limit: error.limit, byKey: error.byKey };
  return error instanceof Retry ? { action: "nack", error: said, afterMs: error.afterMs } : { action: "nack", error: said };
}
