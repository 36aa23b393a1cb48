// Polling: one request at a time, the next one a while after the answer, none while the tab is hidden.

const patience = 20e3;

export class Poller {
  #timer = 0;
  #running = null;
  #again = false; // ask once more when the request under way has ended
  #load;

  // load asks once and returns after how many ms to ask again.
  constructor(load) {
    this.#load = load;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.stop() : this.now()));
  }

  stop() {
    clearTimeout(this.#timer);
    this.#again = false;
    this.#running?.abort();
  }

  // now asks at once; it gives up the request under way.
  now() {
    this.stop();
    if (this.#running) this.#again = true;
    else if (!document.hidden) this.#run();
  }

  async #run() {
    const running = new AbortController();
    this.#running = running;
    const limit = setTimeout(() => running.abort(new DOMException("", "TimeoutError")), patience);
    const wait = await this.#load(running.signal);
    clearTimeout(limit);
    this.#running = null;
    if (document.hidden) return;
    if (this.#again) this.now();
    else this.#timer = setTimeout(() => this.now(), wait);
  }
}
