// The same as play.py, for the clients in JavaScript.
'use strict';
const readline = require('node:readline');

const LOOK_EVERY_MS = 50;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)));

class Play {
  constructor(given) {
    Object.assign(this, given);
    this.awaited = new Set(given.awaited);
    this.started = new Map();
  }

  due(place) {
    return new Date((this.begin_s + this.jobs[place][1]) * 1e3);
  }

  // A handler: it notes when it has started, and takes as long as its job says. A second start does not count.
  async handle(place) {
    if (!this.started.has(place)) {
      this.started.set(place, Date.now() / 1e3 - this.begin_s);
      this.awaited.delete(place);
    }
    await sleep(this.jobs[place][2] * 1e3);
  }

  async over() {
    while (this.awaited.size && Date.now() / 1e3 < this.begin_s + this.seconds) await sleep(LOOK_EVERY_MS);
  }
}

exports.played = async (run) => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const play = new Play(JSON.parse(line));
    await run(play);
    console.log(JSON.stringify({ started: [...play.started] }));
    // What is under way is not waited for.
    process.exit(0);
  }
};
