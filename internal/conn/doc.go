// Package conn has the parts of a Conn that do not depend on its client. goredis, rueidisconn and valkeyconn
// share the pauses between attempts, the readers of serve's errors, the loading of scripts and the bookkeeping of
// subscriptions.
package conn
