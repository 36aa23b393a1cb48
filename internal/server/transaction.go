package server

import (
	"bytes"

	"github.com/redoubt-go/redoubt/internal/acl"
	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// A transaction is what the session knows of its MULTI: what becomes of each element of EXEC's
// reply. The carrier knows what is queued where.
type transaction struct {
	active bool
	// broken: a command was refused here, so that EXEC must fail as it does
	// when the back end refused one.
	broken   bool
	elements []element
	writes   bool      // it has a command that may write
	user     *acl.User // at MULTI
	answers  int       // bytes of answers made here
	logins   []*queuedLogin
	next     *acl.User // after the logins; nil: as before
}

// A queuedLogin is AUTH in a transaction.
type queuedLogin struct {
	credentials [][]byte
	ran         bool
	account     *account // nil: it has failed
	fault       string
}

// queueLogin queues AUTH. EXEC's reply has its answer; finishLogins changes the user.
func queueLogin(c *session, credentials [][]byte) {
	l := &queuedLogin{}
	for _, arg := range credentials {
		l.credentials = append(l.credentials, bytes.Clone(arg))
		c.tx.answers += len(arg) + elementBytes
	}
	c.tx.logins = append(c.tx.logins, l)
	if len(credentials) <= 2 {
		if a, _ := c.srv.admit(credentials); a != nil {
			c.tx.next = a.user()
		}
	}
	c.carrier.queue(nil, func(dst, _ []byte) []byte {
		if l.ran = true; len(l.credentials) > 2 {
			l.fault = "ERR syntax error"
		} else {
			l.account, l.fault = c.srv.admit(l.credentials)
		}
		if l.fault != "" {
			return resp.AppendError(dst, l.fault)
		}
		return append(dst, okRaw...)
	})
}

// loseRight answers a command of the transaction to which its client has no right after an AUTH in front of it, as
// EXEC would. It reports false for others.
func loseRight(c *session, k *keySpec, h *handler, args [][]byte) bool {
	if c.tx.next == nil || c.tx.next.MayAll() || k != nil && transactional[k.name] {
		return false
	}
	r := rights{user: c.tx.next}
	if r.refusal(k, h, args) == "" || r.denial.Reason == acl.None {
		return false
	}
	text := r.denial.InTransaction()
	c.tx.answers += len(text)
	c.carrier.queue(nil, func(dst, _ []byte) []byte {
		c.onFail(text)
		return resp.AppendError(dst, text)
	})
	return true
}

// finishLogins does what the AUTHs of a transaction have to do, once EXEC has its reply.
func finishLogins(c *session, logins []*queuedLogin) {
	if len(logins) == 0 || !c.settle() {
		return
	}
	for _, l := range logins {
		switch {
		case !l.ran:
			continue
		case l.account != nil:
			c.login(l.account)
		case l.fault == wrongPass:
			c.srv.stats.authFailures.Add(1)
			name, _ := c.srv.named(l.credentials)
			noteDenial(c, acl.ByLogin, "multi", "auth", string(name), input{of: c})
		}
		if l.fault != "" {
			c.onFail(l.fault)
		}
		c.counter.Answered("auth", l.fault != "")
	}
}

// maxTransaction bounds the bytes of the commands and answers that are kept here until EXEC.
const maxTransaction = 16 << 20

// elementBytes is what a command of a transaction takes beside its bytes.
const elementBytes = 64

// An element of EXEC's reply is the back end's, changed, or an answer made here.
type element struct {
	change translate // nil: it goes through as it is
	local  bool      // the back end knows nothing of it; change makes it from nothing
}

// remote returns how many commands the back end has queued.
func remote(elements []element) (n int) {
	for _, e := range elements {
		if !e.local {
			n++
		}
	}
	return n
}

// changed makes the client's reply of EXEC's. It is nil if that goes through as it is.
func (tx *transaction) changed() translate {
	for _, e := range tx.elements {
		if e.change != nil {
			elements := tx.elements
			return func(dst, raw []byte) []byte { return changeElements(dst, raw, elements) }
		}
	}
	return nil
}

var (
	queued  = []byte("+QUEUED\r\n")
	okRaw   = []byte("+OK\r\n")
	pingRaw = resp.AppendCommand(nil, "PING")
)

const execAbort = "EXECABORT Transaction discarded because of previous errors."

func (c *session) beginTransaction() {
	c.tx = transaction{active: true, user: c.rights.account.user()}
	c.info.change(func(a *clientInfo) { a.inTransaction = true })
}

func (c *session) endTransaction() transaction {
	tx := c.tx
	c.tx = transaction{}
	c.queuedBytes.Hold(0)
	if tx.active {
		c.info.change(func(a *clientInfo) { a.inTransaction, a.queued, a.queuedBytes = false, 0, 0 })
	}
	return tx
}

// showQueued adds a command of the transaction to what CLIENT LIST shows.
func (c *session) showQueued(bytes int) {
	c.info.change(func(a *clientInfo) {
		a.queued++
		a.queuedBytes += bytes
	})
}

// queueAnswer queues an answer made here. The back end doesn't hear of it.
func (c *session) queueAnswer(answer []byte) {
	c.tx.answers += len(answer)
	c.carrier.queue(nil, func(dst, _ []byte) []byte { return append(dst, answer...) })
}

// holdQueued counts what is kept here until EXEC: the answers made here, and in a pool so many bytes of commands. When
// there is no room it rejects the command, drops what is kept, because EXEC will fail, and reports false.
func (c *session) holdQueued(commands int) bool {
	kept := commands + c.tx.answers
	switch {
	case kept > maxTransaction:
		c.reject("ERR redoubt: the commands of this transaction, and the answers to them that are known, have more than 16 MiB, the most that is kept until EXEC")
	case !c.queuedBytes.Hold(kept + elementBytes*len(c.tx.elements)):
		c.reject("ERR redoubt: " + errNoRoom.Error() + ": the command was not queued")
	default:
		return true
	}
	c.dropQueued()
	return false
}

// dropQueued drops what is kept of a transaction that fails at EXEC.
func (c *session) dropQueued() {
	c.tx.elements = nil
	c.queuedBytes.Hold(0)
}

// refuseQueued refuses a command inside a transaction, and with it the
// transaction.
func (c *session) refuseQueued(name string) {
	c.reject("ERR redoubt: " + name + " is not supported inside a transaction")
}

// queueScript queues the script of an extension command.
func (c *session) queueScript(p command.Plan) {
	protocol, translate := c.protocol, p.Translate
	c.carrier.queue(proxy.AppendEval(nil, p.Cmd), func(dst, raw []byte) []byte {
		return translate(dst, protocol, scriptReply(raw))
	})
}

// reject answers a command with an error, and a transaction in which it is fails at EXEC.
func (c *session) reject(text string) {
	c.tx.broken = c.tx.broken || c.tx.active
	c.fail(text)
}

// changeElements changes the elements of an array, and adds those made here. A reply that is no array
// of as many elements as the back end has queued, an error or a null, goes through as it is.
func changeElements(dst, raw []byte, elements []element) []byte {
	head := resp.AppendArray(nil, remote(elements))
	if !bytes.HasPrefix(raw, head) {
		return append(dst, raw...)
	}
	before := len(dst)
	dst = resp.AppendArray(dst, len(elements))
	rest := raw[len(head):]
	var scanner resp.ReplyScanner
	for _, e := range elements {
		if e.local {
			dst = e.change(dst, nil)
			continue
		}
		n, err := scanner.Next(rest)
		if err != nil || n == 0 {
			return append(dst[:before], raw...)
		}
		if e.change == nil {
			dst = append(dst, rest[:n]...)
		} else {
			dst = e.change(dst, rest[:n])
		}
		rest = rest[n:]
	}
	return dst
}
