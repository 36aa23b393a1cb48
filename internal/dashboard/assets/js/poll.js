// Polling: one request at a time, the next one a while after the answer, none while the tab is hidden.

const patience = 20e3;

export class Poller {
  #timer = 0;
  #running = null;
  #load;

  // load asks once and returns after how many ms to ask again.
  constructor(load) {
    this.#load = load;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.stop() : this.now()));
  }

  stop() {
    clearTimeout(this.#timer);
    this.#running?.abort();
    this.#running = null;
  }

  // now gives up the request under way, and asks at once.
  async now() {
    this.stop();
    if (document.hidden) return;
    const running = new AbortController();
    this.#running = running;
    const limit = setTimeout(() => running.abort(new DOMException("", "TimeoutError")), patience);
    const wait = await this.#load(running.signal);
    clearTimeout(limit);
    if (this.#running !== running) return;
    this.#running = null;
    this.#timer = setTimeout(() => this.now(), wait);
  }
}
