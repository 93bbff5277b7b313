// pg-boss on PostgreSQL: a job for each, in the group of its customer, of which half of the slots may be at work.
'use strict';
const { PgBoss } = require('pg-boss');
const { played } = require('./play.js');

played(async (play) => {
  const [host, port] = play.target.split(':');
  const boss = new PgBoss({ host, port: Number(port), user: 'timers', database: 'postgres', max: 20 });
  boss.on('error', (error) => console.error(error));
  await boss.start();
  await boss.createQueue('jobs');
  await boss.insert('jobs', play.jobs.map(([customer], place) => ({
    data: { place }, startAfter: play.due(place), group: { id: customer },
  })));
  // As often as it can be told to look.
  const options = { localConcurrency: play.slots, pollingIntervalSeconds: 0.5, groupConcurrency: play.slots / 2 };
  await boss.work('jobs', options, async ([job]) => play.handle(job.data.place));
  await play.over();
});
