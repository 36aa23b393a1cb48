// Package server lets any Redis client use a Go program's engine, or a Redis behind the program. The
// clients have the commands of Redis and the commands of Redoubt, such as LOCK.ACQUIRE, LIMIT.TAKE, QUEUE.PUT
// and STOCK.RESERVE, which docs/commands.md lists:
//
//	srv, err := server.New(ctx, server.Options{URL: "embedded:/var/lib/shop"})
//	if err != nil {
//		return err
//	}
//	defer srv.Close()
//	l, err := srv.Listen("tcp", "127.0.0.1:6380")
//	if err != nil {
//		return err
//	}
//	return srv.Serve(l)
//
// A program that also uses the engine itself opens it and sets [Options.Engine]. These clients and the
// program's own calls share locks, limits and queues if both have the same prefix: see [Options.Prefix].
//
// Without a password a Server listens on loopback addresses and unix sockets only. It closes a client
// that takes none of its replies, and bounds the memory of all clients together. `redoubt serve` is
// this server with flags, metrics and pools of servers.
package server
