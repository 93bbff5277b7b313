// graphile-worker on PostgreSQL: a job for each, in the queue of its customer, which does one after the other.
'use strict';
const { Logger, makeWorkerUtils, run } = require('graphile-worker');
const { played } = require('./play.js');

// Standard output is for the answer.
const logger = new Logger(() => (level, message) => { if (level === 'error') console.error(message); });

played(async (play) => {
  const connectionString = `postgres://timers@${play.target}/postgres`;
  const utils = await makeWorkerUtils({ connectionString, logger });
  await utils.migrate();
  await utils.addJobs(play.jobs.map(([customer], place) => ({
    identifier: 'job', payload: { place }, runAt: play.due(place), queueName: customer,
  })));
  const taskList = { job: ({ place }) => play.handle(place) };
  // It looks for what has come due every two seconds, unless it is told to look more often.
  const options = { concurrency: play.slots, pollInterval: 100, noHandleSignals: true };
  await run({ connectionString, logger, taskList, ...options });
  await play.over();
});
