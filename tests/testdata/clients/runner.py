# Sends the steps of steps.txt by redis-py. clients_test.go says what comes in and goes out.
import json, math, sys, threading
import redis

CONTAINERS = {"ACL", "CLIENT", "COMMAND", "CONFIG", "FUNCTION", "LATENCY", "MEMORY", "OBJECT", "PUBSUB", "SCRIPT", "SLOWLOG"}
PATIENCE = 60


def plain(v):
    """The reply as JSON has it."""
    if isinstance(v, bytes):
        try:
            return v.decode()
        except UnicodeDecodeError:
            return {"hex": v.hex()}
    if isinstance(v, Exception):
        return {"error": str(v)}
    if isinstance(v, dict):
        return {"map": [[plain(k), plain(w)] for k, w in v.items()]}
    if isinstance(v, set):
        return {"set": [plain(w) for w in v]}
    if isinstance(v, (list, tuple)):
        return [plain(w) for w in v]
    if isinstance(v, float) and not math.isfinite(v):
        return {"float": str(v)}
    if v is None or isinstance(v, (bool, int, float, str)):
        return v
    return {"type": type(v).__name__, "is": str(v)}


def words(command):
    """The words as redis-py's own methods give them, so that it parses the reply as it does theirs."""
    if command[0] in CONTAINERS and len(command) > 1:
        return [command[0] + " " + command[1].upper()] + command[2:]
    return command


class Client:
    def __init__(self, port):
        self.r = redis.Redis(port=port, socket_timeout=PATIENCE)
        self.other = redis.Redis(port=port, socket_timeout=PATIENCE)
        self.saved = {}

    def call(self, command, r=None):
        return (r or self.r).execute_command(*words(command))

    def do(self, step):
        commands = [[self.saved.get(w, w) for w in c] for c in step["commands"]]
        got = getattr(self, step["do"])(*commands)
        got = plain(got)
        for name, path in (step.get("save") or {}).items():
            v = got
            for i in path:
                v = v[i] if isinstance(v, list) and i < len(v) else None
            self.saved[name] = str(v)
        return got

    def pipeline(self, *commands, transaction=False):
        p = self.r.pipeline(transaction=transaction)
        for c in commands:
            p.execute_command(*words(c))
        return p.execute(raise_on_error=False)

    def multi(self, *commands):
        return self.pipeline(*commands, transaction=True)

    def watch(self, key, write, *commands):
        with self.r.pipeline() as p:
            p.watch(key[0])
            self.call(write, self.other)
            p.multi()
            for c in commands:
                p.execute_command(*words(c))
            try:
                return p.execute()
            except redis.WatchError:
                return {"aborted": True}

    def blocked(self, waits, wakes):
        got = []
        def wait():
            try:
                got.append(self.call(waits))
            except redis.RedisError as e:
                got.append(e)
        t = threading.Thread(target=wait)
        t.start()
        woke = self.call(wakes, self.other)
        t.join()
        return [got[0], woke]

    def scan(self, pattern):
        return sorted(self.r.scan_iter(match=pattern[0], count=10))

    def pages(self, command):
        found, cursor = [], "0"
        while True:
            cursor, page = self.call(command + ["CURSOR", cursor])
            found += page
            if cursor == b"0":
                return found

    def script(self, code, keys, args):
        return self.r.register_script(code[0])(keys=keys, args=args)

    def listen(self, method, channel, publish):
        s = self.other.pubsub()
        getattr(s, method)(channel[0])
        confirmed = s.get_message(timeout=PATIENCE)
        heard = self.call(publish)
        got = s.get_message(timeout=PATIENCE)
        getattr(s, method.replace("sub", "unsub"))(channel[0])
        left = s.get_message(timeout=PATIENCE)
        s.close()
        return [confirmed, heard, got, left]

    def subscribe(self, channel, publish):
        return self.listen("subscribe", channel, publish)

    def psubscribe(self, channel, publish):
        return self.listen("psubscribe", channel, publish)

    def ssubscribe(self, channel, publish):
        if not hasattr(redis.client.PubSub, "ssubscribe"):
            return {"absent": "redis-py has no ssubscribe before 5.0"}
        return self.listen("ssubscribe", channel, publish)

    def tracking(self, key, write):
        listener = redis.Redis(connection_pool=self.other.connection_pool, single_connection_client=True)
        c = listener.connection
        c.send_command("CLIENT", "ID")
        to = c.read_response()
        c.send_command("SUBSCRIBE", "__redis__:invalidate")
        c.read_response()
        reader = redis.Redis(connection_pool=self.r.connection_pool, single_connection_client=True)
        try:
            reader.execute_command("CLIENT TRACKING", "ON", "REDIRECT", to)
            reader.get(key[0])
            self.call(write)
            return c.read_response()
        finally:
            c.disconnect()
            reader.connection.disconnect()


def run(door, steps):
    c = Client(door["port"])
    replies = []
    for step in steps:
        if step["ours"] and door["direct"]:
            replies.append(None)
            continue
        try:
            replies.append(c.do(step))
        except Exception as e:  # also of redis-py when it can't parse a reply
            replies.append(plain(e))
    return replies


task = json.load(sys.stdin)
json.dump({"version": redis.__version__, "replies": [run(d, task["steps"]) for d in task["doors"]]}, sys.stdout)
