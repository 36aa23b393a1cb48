// Package sentinel follows the masters that Redis Sentinels name, for the back ends of a pool.
//
// A [Group] keeps a connection to each Sentinel and hears of switches there. It also asks the
// Sentinels: before a connection to a master is opened, when a master has answered like a replica, and
// every few seconds. It asks all at once, waits for a majority, and takes the answer with the highest
// configuration number. So a Sentinel that is cut off or hangs neither misleads nor delays it. Package
// proxy checks by ROLE that the named server is a master.
//
// When the master changes, the connections to the old one end. When no Sentinel answers, the last known
// master stays: Sentinels are needed for a switch only.
package sentinel
