// Package poolhost serves the pools of a twemproxy configuration file in one process: each pool
// on its own address, in front of Redis or memcached servers.
//
//	file, err := poolhost.Read("nutcracker.yml", password)
//	host, err := poolhost.Open(file, poolhost.Options{MaxClients: 10_000, …})
//	defer host.Close()
//	host.Serve()
//	…
//	host.Reload()            // on SIGHUP
//	err = host.Shutdown(ctx) // on SIGTERM
//
// [Read] checks a file and everything it names, without connecting to a server. [Open] listens on the
// address of every pool. [Host.Serve] lets clients in.
//
// [Host.Reload] reads the file again and applies the difference. A pool keeps its clients where it
// can: new servers, users and certificates take effect under them. A pool is opened anew when one of these
// changes: its address or the permissions of its socket, its password or database, whether it has a default
// user, its hash tag, client_connections, the TLS files for clients, or whether a Redis Cluster is behind
// it. Its clients are closed once they have their replies.
//
// [OpenGroup] makes the pool of a Sentinel group or a cluster that a URL names, for a server that listens by
// itself.
//
// A Host is a Prometheus collector, reports the health of its servers, and tells twemproxy's own
// statistics on a port ([Host.ListenStats]).
package poolhost
