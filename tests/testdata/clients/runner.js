// Sends the steps of steps.txt by ioredis. clients_test.go says what comes in and goes out.
"use strict";
const { Redis } = require("ioredis");
const text = new TextDecoder("utf-8", { fatal: true });

// plain returns a reply as JSON has it.
function plain(v) {
  if (v === undefined || v === null) return null;
  if (v instanceof Error) return { error: v.message };
  if (Buffer.isBuffer(v)) {
    try {
      return text.decode(v);
    } catch {
      return { hex: v.toString("hex") };
    }
  }
  if (Array.isArray(v)) return v.map(plain);
  if (v instanceof Set) return { set: [...v].map(plain) };
  if (v instanceof Map) return { map: [...v].map(([k, w]) => [plain(k), plain(w)]) };
  if (typeof v === "object") return { map: Object.entries(v).map(([k, w]) => [k, plain(w)]) };
  if (typeof v === "number" && !Number.isFinite(v)) return { float: String(v) };
  if (typeof v === "bigint") return { bigint: String(v) };
  return v;
}

class Client {
  constructor(door) {
    this.options = { port: door.port, protocol: door.protocol, maxRetriesPerRequest: 0, retryStrategy: null };
    // With RESP3, replies keep the types that they have there.
    if (door.protocol === 3) this.options.replyMapping = "resp3";
    this.open = [];
    this.r = this.connect();
    this.other = this.connect();
    this.saved = new Map();
  }

  connect() {
    const r = new Redis(this.options);
    r.on("error", () => {}); // the command that meets it says so
    this.open.push(r);
    return r;
  }

  close() {
    for (const r of this.open) r.disconnect();
  }

  async do(step) {
    const commands = step.commands.map((c) => c.map((w) => this.saved.get(w) ?? w));
    const got = plain(await this[step.do](...commands));
    for (const [name, path] of Object.entries(step.save ?? {})) {
      this.saved.set(name, String(path.reduce((v, i) => v?.[i], got)));
    }
    return got;
  }

  call(command, r = this.r) {
    return r.call(...command);
  }

  async queued(p, commands) {
    for (const c of commands) p.call(...c);
    const replies = await p.exec();
    return replies && replies.map(([err, v]) => err ?? v);
  }

  pipeline(...commands) {
    return this.queued(this.r.pipeline(), commands);
  }

  multi(...commands) {
    return this.queued(this.r.multi(), commands);
  }

  async watch(key, write, ...commands) {
    await this.r.watch(key[0]);
    await this.call(write, this.other);
    const replies = await this.queued(this.r.multi(), commands);
    return replies ?? { aborted: true };
  }

  async blocked(waits, wakes) {
    const waiting = this.call(waits).catch((e) => e);
    const woke = await this.call(wakes, this.other);
    return [await waiting, woke];
  }

  async scan(pattern) {
    const keys = [];
    for await (const page of this.r.scanStream({ match: pattern[0], count: 10 })) keys.push(...page);
    return keys.sort();
  }

  async pages(command) {
    const found = [];
    let cursor = "0";
    do {
      const [next, page] = await this.call([...command, "CURSOR", cursor]);
      found.push(...page);
      cursor = next;
    } while (cursor !== "0");
    return found;
  }

  script(code, keys, args) {
    this.r.defineCommand("ours", { lua: code[0], numberOfKeys: keys.length });
    return this.r.ours(...keys, ...args);
  }

  async listen(method, event, channel, publish) {
    const s = this.connect();
    const message = new Promise((resolve) => s.on(event, (...m) => resolve(m)));
    const confirmed = await s[method](channel[0]);
    const heard = await this.call(publish);
    const got = await message;
    const left = await s[method.replace("sub", "unsub")](channel[0]);
    s.disconnect();
    return [confirmed, heard, got, left];
  }

  subscribe(channel, publish) {
    return this.listen("subscribe", "message", channel, publish);
  }

  psubscribe(channel, publish) {
    return this.listen("psubscribe", "pmessage", channel, publish);
  }

  ssubscribe(channel, publish) {
    return this.listen("ssubscribe", "smessage", channel, publish);
  }

  async tracking(key, write) {
    if (this.options.protocol === 3) return { absent: "ioredis drops invalidations in RESP3" };
    const s = this.connect();
    const to = await s.client("ID");
    const message = new Promise((resolve) => s.on("message", (...m) => resolve(m)));
    await s.subscribe("__redis__:invalidate");
    const reader = this.connect();
    await reader.client("TRACKING", "ON", "REDIRECT", to);
    await reader.get(key[0]);
    await this.call(write);
    return message;
  }
}

async function run(door, steps) {
  const c = new Client(door);
  const replies = [];
  for (const step of steps) {
    if (step.ours && door.direct) {
      replies.push(null);
      continue;
    }
    try {
      replies.push(await c.do(step));
    } catch (e) {
      replies.push(plain(e));
    }
  }
  c.close();
  return replies;
}

async function main() {
  let input = "";
  for await (const chunk of process.stdin) input += chunk;
  const task = JSON.parse(input);
  const replies = [];
  for (const door of task.doors) replies.push(await run(door, task.steps));
  const { version } = require("ioredis/package.json");
  process.stdout.write(JSON.stringify({ version, replies }));
}

main();
