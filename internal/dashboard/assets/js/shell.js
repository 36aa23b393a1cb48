// What to type in a shell to reach a server.

// lines returns lines to type, each with its tool. cli is a command for redis-cli and shell one of redoubt. url is
// where the server listens, like redis://127.0.0.1:6380. Without a url these two lines are left out: the page does
// not know a server that has the commands.
export function lines(url, { cli, shell, go }) {
  const server = url ? reach(url) : null;
  return [["redis-cli", server && cli && `redis-cli${server.options} ${cli}`], ["redoubt", server && shell && `${server.variable}redoubt ${shell}`], ["Go", go]].filter(([, text]) => text);
}

const defaultOfRedoubt = "redis://127.0.0.1:6380";

function reach(url) {
  const [, scheme, rest] = /^([a-z]+):\/\/(.*)$/.exec(url);
  if (scheme === "unix") return { options: ` -s ${rest}`, variable: `REDOUBT_BACKEND=${url} ` };
  const colon = rest.lastIndexOf(":");
  let host = rest.slice(0, colon).replace(/[[\]]/g, "");
  const port = rest.slice(colon + 1);
  // A server at all addresses of its machine also has the one that the browser uses.
  if (["", "0.0.0.0", "::"].includes(host)) host = location.hostname.replace(/[[\]]/g, "");
  if (host === "localhost") host = "127.0.0.1";
  const here = `${scheme}://${host.includes(":") ? `[${host}]` : host}:${port}`;
  return {
    options: `${host === "127.0.0.1" ? "" : ` -h ${host}`} -p ${port}${scheme === "rediss" ? " --tls" : ""}`,
    variable: here === defaultOfRedoubt ? "" : `REDOUBT_BACKEND=${here} `,
  };
}
