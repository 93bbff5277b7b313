import { type Client, type Outcome, type Task, TimerdError, sleep } from "./client.js";

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
 * a span, an hour at most, and no attempt is used up.
 */
export class Throttled extends Error {
  override name = "Throttled";
  constructor(readonly afterMs: number, readonly limit = "", message = "") {
    super(message);
  }
}

/** Why the signal of a handler was aborted: its `reason`. */
export class Interrupted extends Error {
  override name = "Interrupted";
  constructor(readonly why: "lost" | "cancelled" | "expired") {
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
 * signal is aborted, with an Interrupted as its reason, when the work is for nothing: the task is lost to another worker, cancelled or
 * expired. How the handler ends counts as ever; what it throws ends a cancelled task as cancelled.
 */
export type Handler = (task: Task, signal: AbortSignal) => unknown;

export interface WorkerOptions {
  /** Handlers at a time, up to 1,000, default 10; more tasks are never in hand. */
  concurrency?: number;
  /** After the end of this process others get its tasks so late; default 30,000. */
  leaseMs?: number;
  /** What did not go well and is tried again. Default console.warn. */
  onTrouble?: (what: string, error: unknown) => void;
}

/** Calls a handler for each task of a queue that is due, and renews leases meanwhile, through restarts of the server. */
export class Worker {
  readonly #stopping = new AbortController();
  readonly #inHand = new Map<Task, AbortController>();
  readonly #most: number;
  readonly #leaseMs: number;
  readonly #trouble: (what: string, error: unknown) => void;
  #free: () => void = () => {};
  #done: Task[] = [];
  #acknowledging = false;

  constructor(readonly client: Client, readonly queue: string, readonly handler: Handler, options: WorkerOptions = {}) {
    this.#most = Math.min(options.concurrency ?? 10, 1_000);
    this.#leaseMs = options.leaseMs ?? 30_000;
    this.#trouble = options.onTrouble ?? ((what, error) => console.warn(`timerd: ${what}: ${error}`));
  }

  /** Until `stop`; then handlers that run are waited for. Rejects only where trying again would not help. */
  async run(): Promise<void> {
    const renewing = setInterval(() => void this.#renew(), this.#leaseMs / 3);
    try {
      while (!this.#stopping.signal.aborted) {
        await this.#receive(this.#most - this.#inHand.size);
        await this.#until(() => this.#inHand.size < this.#most);
      }
    } finally {
      await this.#until(() => this.#inHand.size === 0);
      clearInterval(renewing);
    }
  }

  /** Takes no more tasks. */
  stop(): void {
    this.#stopping.abort();
  }

  async #receive(max: number): Promise<void> {
    try {
      const tasks = await this.client.receive(this.queue, max, 20_000, this.#leaseMs, this.#stopping.signal);
      for (const task of tasks) {
        const lost = new AbortController();
        this.#inHand.set(task, lost);
        void this.#work(task, lost.signal);
      }
    } catch (error) {
      if (this.#stopping.signal.aborted) return;
      if (!(error instanceof TimerdError && error.isRetryable)) throw error;
      this.#trouble("no tasks are received", error);
      await sleep(1_000, this.#stopping.signal);
    }
  }

  async #work(task: Task, signal: AbortSignal): Promise<void> {
    try {
      await this.handler(task, signal);
    } catch (error) {
      return this.#finish([task], outcomeOf(error));
    }
    this.#done.push(task);
    await this.#acknowledge();
  }

  /** Tells together what has gathered while the call before was on its way. */
  async #acknowledge(): Promise<void> {
    if (this.#acknowledging) return;
    this.#acknowledging = true;
    while (this.#done.length) await this.#finish(this.#done.splice(0), { action: "ack" });
    this.#acknowledging = false;
  }

  /** A task whose outcome cannot be told comes again. */
  async #finish(tasks: Task[], outcome: Outcome): Promise<void> {
    await this.client.finish(tasks, outcome).catch((error) => this.#trouble("tasks are not finished, and come again", error));
    for (const task of tasks) this.#inHand.delete(task);
    this.#free();
  }

  /** Tells that the tasks in hand are still worked on, and aborts the handlers of those that are interrupted. */
  async #renew(): Promise<void> {
    if (this.#inHand.size === 0) return;
    const held = new Map([...this.#inHand].map(([task, lost]) => [task.ackToken, lost]));
    try {
      const { lost, interrupts } = await this.client.renew([...this.#inHand.keys()], this.#leaseMs);
      for (const token of lost) held.get(token)?.abort(new Interrupted("lost"));
      for (const { ackTokens, reason } of interrupts) {
        const why = REASONS[reason];
        if (why) held.get(ackTokens)?.abort(new Interrupted(why));
      }
    } catch (error) {
      this.#trouble("leases are not renewed", error);
    }
  }

  async #until(fact: () => boolean): Promise<void> {
    while (!fact()) await new Promise<void>((resolve) => (this.#free = resolve));
  }
}

function outcomeOf(error: unknown): Outcome {
  const said = error instanceof Error ? error.message || error.name : String(error);
  if (error instanceof Reject) return { action: "reject", error: said };
  if (error instanceof Throttled) return { action: "throttled", error: said, afterMs: error.afterMs, limit: error.limit };
  return error instanceof Retry ? { action: "nack", error: said, afterMs: error.afterMs } : { action: "nack", error: said };
}
