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
  /** By which a repeat is known for 24 h; a delay counts from the first call. Default a new one. */
  requestId?: string;
  labels?: Record<string, string>;
  contentType?: string;
  traceparent?: string;
  /** 0 to 10; 10 is first. */
  priority?: number;
  /**
   * Somebody waits for it, so it goes before due tasks that wait in line: 256 s at first, and two more for each second that it waits. It
   * needs an `expireAfterMs` of 600,000 at most. Default not.
   */
  onDemand?: boolean;
  /** Tasks of the queue with the same one are delivered one at a time, in order. */
  orderingKey?: string;
  /** By which tasks of the queue take turns and have limits, such as a customer. */
  limitKey?: string;
  /** Not delivered at or after it; what was delivered before goes on. Default never. */
  expireAt?: Date;
  /**
   * For how long from its fire time on it is worth something, a millisecond to 100 years. Then it is not delivered any more, and an
   * attempt that is under way is over. Default for ever.
   */
  expireAfterMs?: number;
  /** Delivered, but `late`, at or after it. Default never. */
  softExpireAt?: Date;
  /** So long after its fire time it is `late`. Default never. */
  softExpireAfterMs?: number;
  /** Default 20. */
  maxAttempts?: number;
  /** The wait before the second attempt, a millisecond to 30 days. Default 1,000. */
  initialBackoffMs?: number;
  /** By which each wait is longer than the one before, 1 to 100. Default 2. */
  multiplier?: number;
  /** The longest wait, up to 30 days. Default an hour. */
  maxBackoffMs?: number;
  /** The share of each wait that may be cut off, 0 (none) to 1. Default 0.1. */
  jitter?: number;
  /** An attempt that takes longer has failed; 100 ms to 7 days. Default an hour. */
  attemptTimeoutMs?: number;
  /** An attempt that says no progress for so long fails; a second to 7 days. Default never. */
  stallTimeoutMs?: number;
  /** For so long what its handler returns is kept, up to 24 h: `get` and `wait` show it. Default it is not. */
  keepResultMs?: number;
  /** A queue in which a task is made when this one ends, however it does: `ended` tells its handler how. Default none. */
  onEnd?: string;
}

/** A task that was scheduled with `onEnd`, as the handler of that queue learns of it. */
export interface EndedTask {
  outcome: "ACKED" | "DEAD" | "EXPIRED" | "CANCELLED" | "PURGED";
  id: string;
  /** It tells two ends of a task apart that was redriven. */
  deliveryId: string;
  queue: string;
  key: string;
  orderingKey: string;
  labels: Record<string, string>;
  fireTime: Date;
  endTime: Date;
  /** How many deliveries it had. */
  attempt: number;
  /** What its last failed attempt failed with; empty where none has. */
  lastError: string;
}

/** Of a call. */
export interface Asking extends Omit<NewTask, "at" | "delayMs" | "key" | "onConflict" | "expireAt" | "expireAfterMs"> {
  /**
   * For how long the answer is of use: then no attempt begins any more, and one that is under way is over. Up to 600,000 the task is on
   * demand. Default 30,000.
   */
  timeoutMs?: number;
  /** Aborted, it cancels the task. */
  signal?: AbortSignal;
}

/** For the end of a task. */
export interface Waiting {
  /** Default until the end. */
  timeoutMs?: number;
  signal?: AbortSignal;
}

/** How far an attempt has come. */
export interface Progress {
  /** 0 to 1. */
  fraction: number;
  /** What the next attempt needs to go on from there, a text of up to 1 KiB. */
  cursor: string;
}

/** A stored task, as `get` and `wait` show it. Of one that is "FINISHED" only the id, the times and the state are known. */
export interface TaskInfo {
  id: string;
  namespace: string;
  queue: string;
  key: string;
  state: "PENDING" | "IN_FLIGHT" | "RETRYING" | "ACKED" | "DEAD" | "EXPIRED" | "CANCELLED" | "PURGED" | "FINISHED";
  /** Whether it has ended: nothing more of it is sent. */
  isOver: boolean;
  fireTime: Date;
  /** When it is to be delivered next, or was. */
  dueTime: Date;
  payload: Uint8Array;
  contentType: string;
  labels: Record<string, string>;
  priority: number;
  onDemand: boolean;
  orderingKey: string;
  limitKey: string;
  /** Not delivered at or after it; undefined: never. */
  expireTime: Date | undefined;
  /** Late at or after it; undefined: never. */
  softExpireTime: Date | undefined;
  /** How many deliveries have begun, where that is known. */
  attempt: number;
  /** What its last failed attempt failed with; empty where none has. */
  lastError: string;
  /** What its handler has said last. */
  progress: Progress | undefined;
  /** What its handler has returned, where that is kept (`keepResultMs`). */
  result: Uint8Array | undefined;
  traceparent: string;
  onEnd: string;
  /** A cancel has come while a worker had it: no other attempt follows. */
  isCancelling: boolean;
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
  /** When the attempt is worth nothing any more, by `expireAfterMs`; undefined: never. */
  deadline?: Date | undefined;
  /** From when on it is late; undefined: never. */
  softDeadline?: Date | undefined;
  /** 1 for the first. */
  attempt: number;
  late: boolean;
  traceparent: string;
  orderingKey: string;
  /** What an earlier attempt has said last before it failed. */
  previousProgress?: Progress | undefined;
  /** How long this attempt may take in all. */
  attemptTimeoutMs: number;
  /** For so long no progress may be said; 0: for any time. */
  stallTimeoutMs: number;
  /** For how long its result is kept; 0: it is not. */
  keepResultMs: number;
  /** The task whose end has made this one (`onEnd`); undefined where no end has. It throws where the payload cannot be read. */
  readonly ended: EndedTask | undefined;
  /** What was said last, by the clock of `performance`. */
  said?: Progress & { atMs: number };
  /**
   * Says how far the handler has come. It goes to the server with the next sign of life, and with a failure: the next attempt has it
   * as `previousProgress`. Each call begins the stall timeout anew.
   */
  progress(fraction: number, cursor?: string): void;
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
  /** Of "throttled": what has the limit key of the task, and not the queue. */
  byKey?: boolean;
  /** Of "ack": what each of the tasks has come to, up to 64 KiB. */
  result?: Uint8Array | string;
}

export interface Renewed {
  lost: string[];
  interrupts: { ackTokens: string; reason: string }[];
}
