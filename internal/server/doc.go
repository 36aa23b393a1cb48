// Package server is the RESP server. It listens, and stands between clients and the back end that
// keeps the data: one server, an engine in this process, a pool of servers, or a cluster.
//
//	srv, err := server.New(server.Options{Backend: backend, Client: client})
//	…
//	l, err := srv.Listen("tcp", "127.0.0.1:7379")
//	…
//	err = srv.Serve(l)
//
// # How a command is run
//
//   - Most commands pass through. The server copies their bytes, and reads only their boundaries and
//     their names. They share one connection with all clients (package proxy). The replies return
//     the same way.
//   - An extension command (package command) becomes one script, in its place in the pipeline. If
//     the command waits, its client waits too.
//   - The server itself answers commands about the connection: HELLO, AUTH, CLIENT, ECHO, QUIT and
//     RESET. It answers PING as well, except in front of one server: that one answers, so CLIENT
//     PAUSE holds the answer back. COMMAND is the back end's reply with the extension commands
//     added.
//   - A command that leaves state in a connection or occupies it moves the client to a connection
//     of its own first: MULTI, WATCH, SELECT, SUBSCRIBE, MONITOR, BLPOP, CLIENT TRACKING and others
//     like them. The client keeps that connection until it closes or sends RESET.
//   - An engine in this process ([Options.Sessions]) runs commands in the goroutine that read them.
//     On Linux one goroutine serves many clients.
//   - In front of a pool ([Options.Pool]) each command goes to the server of its key. Some commands
//     with keys of several servers are split, and their replies joined. The session keeps a
//     transaction until EXEC, and then sends all of it to the server of its keys. WATCH and commands
//     that block borrow a connection. A subscriber has a connection to each server.
//   - CLIENT TRACKING with REDIRECT opens a connection for the client that REDIRECT names. The back
//     end sends the invalidations there.
//   - Replication is refused: SYNC, PSYNC, REPLCONF. In front of a pool, CLIENT TRACKING and PAUSE
//     are refused too. The first words of an HTTP request, "POST" and "Host:", end the connection,
//     as in Redis.
//
// # Promises
//
//   - Replies come in the order of the commands, each exactly once.
//   - A client's commands run in the order sent, except a script that the back end has forgotten:
//     outside of transactions it is sent again, and runs after the commands behind it.
//   - No client sees the state of another.
//   - A fault is one error reply, in the place of the command that it struck.
//   - Commands in flight and waiting replies of a client are bounded. So is the size of a command.
//     Beyond the bounds the server reads no more from the client. The size of a reply is not known
//     before it comes. So a client has 16 commands in flight at first, then as many as have 4 MiB of
//     replies of the size seen lately, or MaxOutput if that is less. In the worst case, large replies
//     after small ones, MaxPipeline large replies come.
//   - One client's command holds up no client that uses other keys.
//   - The server closes a client that takes no reply for the write time-out.
package server
