"""Takes turns under a lock that programs in Go and Node take too. Needs redis-py: pip install redis.

PORT is the port of a Redoubt server on this machine.
"""

import contextlib
import os
import secrets
import time

import redis

client = redis.Redis(port=int(os.environ["PORT"]), decode_responses=True)


@contextlib.contextmanager
def lock(name, ttl_ms=30_000, wait_ms=60_000):
    """Holds a lock and gives its fencing token. Work that takes longer than ttl_ms must send LOCK.EXTEND.

    A socket_timeout of the client must be longer than wait_ms.
    """
    owner = secrets.token_hex(16)  # so that the command may be repeated after a lost reply
    lease = client.execute_command(
        "LOCK.ACQUIRE", name, ttl_ms, "BLOCK", wait_ms, "ID", owner, "LABEL", "python", "FAIR"
    )
    if lease is None:
        raise TimeoutError(f"{name} is busy")
    try:
        yield lease[1]
    finally:
        client.execute_command("LOCK.RELEASE", name, owner)


def write(token, text):
    """Writes to the log, unless a holder with a larger token has written already."""
    client.execute_command("FENCE.DO", "ledger", token, "RPUSH", "{ledger}:log", f"{token} python {text}")


client.ping()
print("ready", flush=True)
for _ in range(5):
    with lock("ledger") as token:
        write(token, "begins")
        time.sleep(0.005)
        write(token, "ends")
