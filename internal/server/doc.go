// Package server is the RESP server: it listens, and stands between clients
// and the back end that keeps the data.
//
// What a client sends is treated in one of six ways:
//
//   - Most commands pass through: their bytes are copied, unread but for
//     their boundaries and their name, to a connection that all clients share
//     (package proxy), and the replies come back the same way.
//   - Extension commands (package command) become one script each, in their
//     place in the pipeline; those that wait hold their client.
//   - What concerns the connection is answered here: HELLO, AUTH, CLIENT,
//     ECHO, QUIT and RESET. PING is answered here too, except in front of one
//     server, which answers itself, so CLIENT PAUSE holds back the answer.
//     (TestPingWhilePaused) COMMAND is the back end's answer with the
//     extension commands added.
//   - What leaves state in a connection, or occupies it, moves the client to
//     a connection of its own first: MULTI, WATCH, SELECT, SUBSCRIBE,
//     MONITOR, BLPOP, CLIENT TRACKING and their like. It keeps that
//     connection until it closes or sends RESET.
//   - A back end in this process ([Options.Sessions]) runs what passes through,
//     and scripts, in the goroutine that read them, without a connection. On Linux
//     that is one for many clients.
//     (TestDifferentialInProcess)
//   - In front of a pool ([Options.Pool]) each command goes to the server that has
//     its key. Some with keys of several servers are split, and their replies joined.
//     (TestPoolTutorial, TestPoolFragments) A transaction is kept here until EXEC, and
//     goes to the server of its keys as one (TestPoolTransaction). What occupies a
//     connection borrows one for as long (TestPoolWatch, TestPoolBlocks). A subscriber has
//     one to each server (TestPoolPubSub, TestPoolListensWithoutAServer).
//   - With REDIRECT, CLIENT TRACKING opens a connection for the client that is named
//     there, on which the back end sends the invalidations. (TestTracking)
//   - Replication (SYNC, PSYNC, REPLCONF) is refused. In front of a pool, CLIENT
//     TRACKING and PAUSE are refused too. POST and Host: close the client, as they do in Redis.
//
// # What is promised
//
//   - Replies come in the order of the commands, each exactly once, whatever
//     mixture of the ways they took. (TestMixedOrder)
//   - A client's commands run in the order sent, with one exception: a script
//     that the back end had forgotten is sent again, and runs after what was
//     sent behind it. Never so in a transaction. (TestScriptFlush)
//   - No state of one client is seen by another. (TestNoLeak)
//   - A fault is one error reply in the place of the command that it struck.
//     (TestFaults)
//   - What one client may ask for is bounded: commands in flight, the size of
//     one command, and replies not yet taken, past which no more is read. How
//     large a reply will be is not known before it comes: a client has 16
//     commands in flight at first, then as many as 4 MiB, or MaxOutput if it is
//     less, holds replies of the size seen lately. The worst case, large replies
//     after small ones, is MaxPipeline times the largest reply. (TestSlowStart,
//     TestLargeInFlight)
//   - One client's command holds up no other client that doesn't use the same
//     keys. (TestNobodyIsHeldUp)
//   - A client that takes nothing for the write time-out is closed.
//     (TestTakenNoMore)
package server
