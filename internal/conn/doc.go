// Package conn has the parts of a Conn that do not depend on its client. goredis, rueidisconn and valkeyconn
// share the pauses between attempts, the readers of serve's errors, the loading of scripts and the bookkeeping of
// subscriptions.
//
// rueidisconn and valkeyconn are modules of their own: a program may have a newer root with an older one of them. So what
// is exported here, which api.txt lists, stays as it is, once released; new things may come.
package conn
