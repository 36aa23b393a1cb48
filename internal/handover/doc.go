// Package handover keeps listening sockets open while one process of a server takes the place of another.
//
//	sockets, err := handover.Inherit()
//	l, err := sockets.Listen(ctx, "tcp", "127.0.0.1:6380") // an inherited socket, or a new one
//	sockets.CloseUnused()
//
// A process inherits sockets from systemd (socket activation), or from the process that runs now and gives
// its place up:
//
//	former:    next, err := sockets.Start(ctx)  // the same program, with the same arguments and all sockets
//	successor: sockets.Former().Ready()         // it serves, or needs nothing but the former's end
//	former:    next.Yield()                     // and then it drains its clients, and ends
//
// Both have the same sockets. So the kernel keeps the connections that nobody has accepted, and no client is refused,
// also while neither process accepts.
//
// The processes have two pipes: the successor says that it is ready, and the former one that it yields. The end of a
// pipe means the end of the process.
package handover
