// BullMQ on Redis: a delayed job for each, and the limiter that a worker may have, of the whole queue.
'use strict';
const { Queue, Worker } = require('bullmq');
const { played } = require('./play.js');

played(async (play) => {
  const [host, port] = play.target.split(':');
  const connection = { host, port: Number(port), maxRetriesPerRequest: null };
  const queue = new Queue('jobs', { connection });
  await queue.addBulk(play.jobs.map((_, place) => ({
    name: 'job', data: place, opts: { delay: Math.max(0, play.due(place) - Date.now()), removeOnComplete: true },
  })));
  const limiter = { max: 100, duration: 1000 };
  const worker = new Worker('jobs', (job) => play.handle(job.data), { connection, concurrency: play.slots, limiter });
  await worker.waitUntilReady();
  await play.over();
});
