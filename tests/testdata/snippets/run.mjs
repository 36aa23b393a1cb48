// Runs the snippets of the documents that are in JavaScript. snippets_test.go says what comes in and goes
// out. Each snippet is a module beside this file, so that it may import and await.
import { readFileSync } from "node:fs";
import Redis from "ioredis";

const task = JSON.parse(readFileSync(0, "utf8"));
const admin = new Redis(task.port);
let page;
for (const [i, snippet] of task.snippets.entries()) {
  if (snippet.page !== page) {
    page = snippet.page;
    await admin.flushall();
  }
  console.log("\x01" + i);
  try {
    await import(`./snippet${i}.mjs`);
  } catch (error) {
    console.log("\x02" + error.stack);
  }
}
process.exit(0); // the snippets leave their connections open
