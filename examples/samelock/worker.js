// Takes turns under a lock that programs in Go and Python take too. Needs ioredis: npm install ioredis.
// PORT is the port of a Redoubt server on this machine.
const { randomBytes } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const Redis = require('ioredis');

const client = new Redis({ port: Number(process.env.PORT) });

// Holds a lock while work runs, and gives it the fencing token. Work that takes longer than ttl must send
// LOCK.EXTEND. While LOCK.ACQUIRE waits, the connection answers nothing else.
async function withLock(name, work, { ttl = 30000, wait = 60000 } = {}) {
  const owner = randomBytes(16).toString('hex'); // so that the command may be repeated after a lost reply
  const lease = await client.call(
    'LOCK.ACQUIRE', name, ttl, 'BLOCK', wait, 'ID', owner, 'LABEL', 'node', 'FAIR',
  );
  if (lease === null) throw new Error(`${name} is busy`);
  try {
    return await work(lease[1]);
  } finally {
    await client.call('LOCK.RELEASE', name, owner);
  }
}

// Writes to the log, unless a holder with a larger token has written already.
function write(token, text) {
  return client.call('FENCE.DO', 'ledger', token, 'RPUSH', '{ledger}:log', `${token} node ${text}`);
}

async function main() {
  await client.ping();
  console.log('ready');
  for (let i = 0; i < 5; i++) {
    await withLock('ledger', async (token) => {
      await write(token, 'begins');
      await sleep(5);
      await write(token, 'ends');
    });
  }
  await client.quit();
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
