// Package attack attacks the built server: hostile clients, hostile scripts, and
// hostile disks, beside clients that do known work and check every reply.
//
//	make attack [SEED=1] [DURATION=10s] [ONLY=regexp] [RACE=1] [RECORD=1]
//
// All of it is in test files, so that no program builds it. The table of attacks
// is attacks in table_test.go; docs/security.md has it in words, with the numbers
// of the last run that was recorded.
//
// One round of an attack starts the parts of its topology anew: redoubt and the
// servers behind it, as processes on loopback. The victims start, and then the
// attackers, which draw everything they send from the seed. At the end of the
// round the victims stop and the process is told to end while it is still under
// attack. A round holds if
//
//   - the process lived, logged no panic, and its peak of memory was within the
//     attack's budget;
//   - no victim got a wrong reply, an error, or none, and none waited longer than
//     the bound;
//   - one SIGTERM ended the process within its drain time, or two ended it at once.
//
// The attacks on the disk have no victims: they restart the process themselves and
// compare what it kept with what it had acknowledged.
package attack
