package server

import (
	"bytes"

	"github.com/redoubt-go/redoubt/proxy"
	"github.com/redoubt-go/redoubt/resp"
)

// A transaction is what the session knows of its MULTI: what becomes of each
// element of EXEC's reply.
type transaction struct {
	active bool
	// broken: a command was refused here, so that EXEC must fail as it does
	// when the back end refused one.
	broken   bool
	elements []translate // nil: the element goes through as it is
	pooled   pooledTransaction
}

var (
	queued  = []byte("+QUEUED\r\n")
	okRaw   = []byte("+OK\r\n")
	pingRaw = resp.AppendCommand(nil, "PING")
)

const execAbort = "EXECABORT Transaction discarded because of previous errors."

func (c *session) multi(_ [][]byte, raw []byte) {
	c.commands[Passed]++
	if !c.dedicate() {
		return
	}
	nested := c.tx.active
	c.forwardExpecting(raw, nil, proxy.Expect{})
	if !nested {
		c.tx = transaction{active: true}
		c.shown(func(a *about) { a.inTransaction = true })
	}
}

// queue sends a command that is to be queued. Its element in EXEC's reply is
// changed by change unless that is nil.
func (c *session) queue(raw []byte, change translate) {
	if c.srv.inPool() {
		c.enqueue(raw, change)
		return
	}
	c.tx.elements = append(c.tx.elements, change)
	c.showQueued(len(raw))
	var direct translate
	if change != nil {
		// Should MULTI itself have failed, the command ran at once.
		direct = func(dst, raw []byte) []byte {
			if bytes.Equal(raw, queued) || len(raw) > 0 && raw[0] == '-' {
				return append(dst, raw...)
			}
			return change(dst, raw)
		}
	}
	c.forwardExpecting(raw, direct, proxy.Expect{})
}

// showQueued adds a command of the transaction to what CLIENT LIST shows.
func (c *session) showQueued(bytes int) {
	c.shown(func(a *about) {
		a.queued++
		a.queuedBytes += bytes
	})
}

// queueAnswer queues an answer made here: a PING takes its place.
func (c *session) queueAnswer(answer []byte) {
	c.tx.pooled.answers += len(answer)
	c.queue(pingRaw, func(dst, _ []byte) []byte { return append(dst, answer...) })
}

// refuseQueued refuses a command inside a transaction, and with it the
// transaction.
func (c *session) refuseQueued(name string) {
	c.tx.broken = true
	c.fail("ERR redoubt: " + name + " is not supported inside a transaction")
}

func (c *session) exec(_ [][]byte, raw []byte) {
	c.commands[Passed]++
	if !c.tx.active {
		c.forward(raw, nil) // the back end says what is wrong
		return
	}
	tx := c.endTransaction()
	if tx.broken {
		c.forwardExpecting(resp.AppendCommand(nil, "DISCARD"), func(dst, raw []byte) []byte {
			if len(raw) > 0 && raw[0] == '-' && !bytes.HasPrefix(raw, []byte("-ERR DISCARD without MULTI")) {
				return append(dst, raw...)
			}
			return resp.AppendError(dst, execAbort)
		}, proxy.Expect{})
		return
	}
	changes := false
	for _, e := range tx.elements {
		changes = changes || e != nil
	}
	if !changes {
		c.forwardExpecting(raw, nil, proxy.Expect{})
		return
	}
	c.forwardExpecting(raw, func(dst, raw []byte) []byte { return changeElements(dst, raw, tx.elements) }, proxy.Expect{})
}

func (c *session) discard(_ [][]byte, raw []byte) {
	c.commands[Passed]++
	c.endTransaction()
	c.forward(raw, nil)
}

func (c *session) endTransaction() transaction {
	tx := c.tx
	c.tx = transaction{}
	c.queueHeld.Hold(0)
	if tx.active {
		c.shown(func(a *about) { a.inTransaction, a.queued, a.queuedBytes = false, 0, 0 })
	}
	return tx
}

// watch, like EXEC, DISCARD and MULTI, is never queued.
func (c *session) watch(_ [][]byte, raw []byte) {
	c.commands[Passed]++
	if c.dedicate() {
		c.shown(func(a *about) { a.watches = true })
		if !c.tx.active {
			_ = c.dedicated.AskID() // a failure to send shows in the next line
		}
		c.forwardExpecting(raw, nil, proxy.Expect{})
	}
}

// changeElements changes the elements of an array. A reply that is no array of
// as many elements, an error or a null, goes through as it is.
func changeElements(dst, raw []byte, elements []translate) []byte {
	head := resp.AppendArray(nil, len(elements))
	if !bytes.HasPrefix(raw, head) {
		return append(dst, raw...)
	}
	before := len(dst)
	dst = append(dst, head...)
	rest := raw[len(head):]
	var scanner resp.ReplyScanner
	for _, change := range elements {
		n, err := scanner.Next(rest)
		if err != nil || n == 0 {
			return append(dst[:before], raw...)
		}
		if change == nil {
			dst = append(dst, rest[:n]...)
		} else {
			dst = change(dst, rest[:n])
		}
		rest = rest[n:]
	}
	return dst
}
