"""Takes locks by LOCK.ACQUIRE of a Redoubt server, each in a thread.

Tells on standard output: wait NAME, in NAME FENCE, out NAME, error NAME REASON. It releases
a lock once it reads its NAME from standard input: what it told by out is known then.
"""

import sys
import threading
import time
import uuid

import redis

host, port, ttl_ms, holds = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
names = sys.argv[5:]
known = {name: threading.Event() for name in names}
printing = threading.Lock()


def tell(*words):
    with printing:
        print(*words)


def until_answered(call, name):
    """Repeats a call until it has a reply. Both commands may be repeated with their ID."""
    while True:
        try:
            return call()
        except redis.RedisError as e:
            tell("error", name, str(e).replace("\n", " "))
            if "this ID is over" in str(e):
                return None
            time.sleep(0.05)
            tell("wait", name)


def work(name):
    client = redis.Redis(host=host, port=port)
    while True:
        key = uuid.uuid4().hex
        tell("wait", name)
        reply = until_answered(
            lambda: client.execute_command("LOCK.ACQUIRE", name, ttl_ms, "ID", key, "BLOCK", 0), name
        )
        if reply is None:
            continue
        _, fence, left_ms = reply
        if left_ms < 3000 * holds:
            continue  # the reply came late: the lease is nearly over
        tell("in", name, fence)
        time.sleep(holds)
        tell("out", name)
        known[name].wait()
        known[name].clear()
        while True:
            try:
                client.execute_command("LOCK.RELEASE", name, key)
                break
            except redis.RedisError:
                time.sleep(0.05)


for name in names:
    threading.Thread(target=work, args=(name,), daemon=True).start()
for line in sys.stdin:
    known[line.strip()].set()
