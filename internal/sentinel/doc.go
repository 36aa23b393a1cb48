// Package sentinel leads the connections of a pool to masters that Redis Sentinels name.
//
// A [Group] keeps a connection to each of the Sentinels, on which they tell of switches,
// and asks them besides: before a connection to a master is opened, when one has answered
// like a replica, and every few seconds, for what was missed. It asks all at once and
// takes the newest answer, by the number of the configuration, among those of the first
// majority: a Sentinel that is cut off or hangs neither misleads nor delays. What they name
// still has to say by ROLE that it is a master, which package proxy sees to.
//
// When the newest answer is another than before, the connections to the old master are
// given up. When no Sentinel answers, the master last known is used: they are needed for a
// switch, not for what works.
package sentinel
