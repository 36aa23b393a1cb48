// Package dashboard shows people the state of Redoubt in a browser: locks, limits, queues, stock, caches,
// filters, pools and the engine. [New] makes an http.Handler for one or several [Source].
//
// The page asks for one JSON object at a time, api/snapshot, with everything that the visible view needs.
//
// # What a snapshot costs
//
// All browsers share the work. For each source and second there is at most one INFO, ten SCANs of 1,000
// keys, and one pipeline for each page of 50 names that somebody looks at. The names come from the keys
// alone: a key is <prefix>:{<name>}:<part>, and the part tells the kind. The scan goes on for as long as
// somebody looks, pass after pass, and a pass forgets the names that it did not find.
//
// When a back end does not answer, the snapshot has the last data, its age and the error. When one view
// fails, the rest of the snapshot stays.
//
// # Who may look
//
// Every request needs a user of the source. A source without a password serves loopback connections only.
// A foreign Host, Origin or site is refused with 403, and every method but GET too, except for api/action,
// which also needs a user with the right to run the command that the action stands for.
package dashboard
